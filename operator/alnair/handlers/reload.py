"""The config file under a running operator: read again when it changes, taken over whole or not at all.

A mounted ConfigMap changes by a swap of links, at most a minute after `helm upgrade`, so the content is compared and no
file system event is relied on. A file that is wrong leaves everything as it is; the log, a metric and an event on the
ConfigMap say what is wrong with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from alnair.api.config import BadConfig, Config, parse_config, read_config
from alnair.control.elastic.elastic import Elastic
from alnair.control.gangs import Roster
from alnair.control.loop import Loop
from alnair.control.metrics import Metrics
from alnair.control.overtime import overtime
from alnair.control.profiles import Profiles
from alnair.extender.verbs import Verbs
from alnair.handlers.feeds import PodFeed
from alnair.kube import Stream
from alnair.ledger.ledger import Ledger
from alnair.scheduling.profile import Profile, build_all
from alnair.scheduling.registry import Registry
from alnair.state import wire
from alnair.state.loads import Decay

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0


class ConfigFile:
    """Looked at for as long as the process lives, leading or not. `config` is the last good one; `listener` hears of
    others."""

    def __init__(self, path: Path | None, config: Config, *, registry: Registry, metrics: Metrics) -> None:
        self.config = config
        self.listener: Adoption | None = None
        self._path = path
        self._registry = registry
        self._metrics = metrics
        self._content: bytes | None = None
        self._complaint = ""
        metrics.config_good.set(1)

    def profiles(self) -> Mapping[str, Profile]:
        """Made anew: nothing that they learn is shared with an earlier leader's."""
        return build_all(self.config, self._registry, limit=overtime)

    def schedulers(self) -> Iterable[str]:
        """By whose names its pods come to us."""
        return self.config.by_name()

    async def run(self) -> None:
        while self._path is not None:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Once: is it another file, and a good one?"""
        assert self._path is not None
        try:
            content = read_config(self._path)
            if content == self._content:
                return
            self._content = content
            config = parse_config(content, origin=str(self._path))
            built = build_all(config, self._registry, origin=str(self._path), limit=overtime)
        except BadConfig as error:
            if isinstance(error.__cause__, OSError):
                self._content = (
                    None  # whatever stands there next is looked at, even if it is what stood there before
                )
            self._refuse(str(error))
            return
        except Exception as error:
            # Whatever it is, the file is looked at again when it changes: nobody else would notice that we stopped.
            log.exception("%s cannot be used", self._path)
            self._refuse(f"{self._path}: {type(error).__name__}: {error}")
            return
        self._complaint = ""
        self._metrics.config_good.set(1)
        if config != self.config:
            self.config = config
            log.info("%s has changed: %s", self._path, ", ".join(config.by_name()))
            if self.listener is not None:
                self.listener.adopt(built)

    def _refuse(self, why: str) -> None:
        self._metrics.config_good.set(0)
        if why != self._complaint:
            self._complaint = why
            log.error("the config stays as it was: %s", why)
            if self.listener is not None:
                self.listener.complain(why)


def decay_of(config: Config) -> Decay:
    readings = config.readings
    return Decay(readings.fresh_seconds, readings.half_life_seconds, readings.forgotten_seconds)


@dataclass(frozen=True, slots=True)
class Adoption:
    """What a leader does with another config than the one that it began with: the whole of it takes effect at once."""

    file: ConfigFile
    config: Config
    profiles: Profiles
    roster: Roster
    ledger: Ledger
    pods: PodFeed
    stream: Stream[wire.Pod]
    loop: Loop
    elastic: Elastic
    extender: Verbs | None
    say: Callable[[str, str, bool], None]  # an event about the file: reason, note, whether it is a warning

    def begin(self) -> None:
        """From now on. To begin to lead takes a while, and the file may have changed since."""
        self.file.listener = self
        if self.file.config != self.config:
            self.adopt(self.file.profiles())
        else:
            self._tell_what_is_broken()

    def end(self) -> None:
        self.file.listener = None

    def adopt(self, built: Mapping[str, Profile]) -> None:
        config = self.file.config
        self.profiles.replace(built)
        self.roster.schedulers = frozenset(self.profiles)
        self.ledger.schedulers |= self.roster.schedulers  # records of profiles that are gone stay ours
        self.ledger.state.loads.adopt(decay_of(config))
        self.pods.deliver(config.delivering())
        self.pods.teach()
        self.pods.measuring = config.measuring()
        self.stream.list_again()  # pods that were nobody's, or are read in another way now
        self.loop.adopt(config.topology.levels)
        self.elastic.adopt(config.elastic)
        if self.extender is not None:
            self.extender.adopt(config)
        elif config.extender is not None:
            self.say("ExtenderNotStarted", "the extender starts when the operator is started again", True)
        self.say("ConfigTaken", f"profiles: {', '.join(self.profiles)}", False)
        self._tell_what_is_broken()

    def complain(self, why: str) -> None:
        self.say("ConfigRefused", f"the config stays as it was: {why}", True)

    def _tell_what_is_broken(self) -> None:
        for name, profile in self.profiles.items():
            for why in profile.broken:
                self.say("RuleFailed", f"profile {name}: {why}; its fallback stands in", True)
