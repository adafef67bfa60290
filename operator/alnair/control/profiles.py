"""The profiles as they stand now: what their rules have learned, and which are off duty because a rule is broken.

A third party's rule that fails takes its profile off duty for a while, and the profile's fallback stands in: the same
without third parties' rules, or whichever the config names. Then the rule is given another chance; each time that it
fails again it waits twice as long. What must never happen: a rule that fails, however often, keeps a gang from being
planned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from alnair.control.metrics import Metrics
from alnair.kube.clock import Clock
from alnair.scheduling.guard import RuleFailed
from alnair.scheduling.profile import Profile
from alnair.state.shapes import PodClass

log = logging.getLogger(__name__)

OFF_DUTY_SECONDS, LONGEST_OFF_DUTY_SECONDS = 60.0, 3600.0


@dataclass(slots=True)
class _Post:
    """One schedulerName: who is to place its pods, and who does."""

    profile: Profile
    fallback: Profile | None
    off_duty_until: float = 0.0
    failures: int = 0

    def standing(self, now: float) -> Profile:
        return self.profile if self.fallback is None or now >= self.off_duty_until else self.fallback


class Profiles(Mapping[str, Profile]):
    """By schedulerName. `on_failure` hears of every rule that failed, with the name of the profile."""

    def __init__(
        self,
        built: Mapping[str, Profile],
        *,
        clock: Clock,
        metrics: Metrics,
        on_failure: Callable[[str, RuleFailed], None] = lambda name, failure: None,
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._on_failure = on_failure
        self._posts: dict[str, _Post] = {}
        self.replace(built)

    def replace(self, built: Mapping[str, Profile]) -> None:
        """Others from now on. What the old ones have learned is gone with them; these are to be told of all pods."""
        self._posts = {name: _Post(profile, profile.fallback) for name, profile in built.items()}
        for name, profile in built.items():
            for why in profile.broken:
                log.error("profile %s runs without third parties' rules: %s", name, why)

    def __getitem__(self, name: str) -> Profile:
        return self._posts[name].standing(self._clock.now())

    def __iter__(self) -> Iterator[str]:
        return iter(self._posts)

    def __len__(self) -> int:
        return len(self._posts)

    def arrived(self, pod: PodClass) -> None:
        """A pod came to one of the profiles: all that learn are told, but for third parties' rules of a profile that is
        off duty. A rule that hangs over one arrival would hang over ten thousand."""
        now = self._clock.now()
        for name, post in self._posts.items():
            try:
                post.profile = post.profile.after(pod, all_told=post.standing(now) is post.profile)
            except RuleFailed as failure:
                post.profile = post.profile.renewed()  # others have learned from it before
                self.failed(name, failure)
            if post.fallback is not None:
                post.fallback = post.fallback.after(pod)

    def off_duty(self) -> frozenset[str]:
        """Those whose fallback stands in now."""
        now = self._clock.now()
        return frozenset(name for name, post in self._posts.items() if post.standing(now) is not post.profile)

    def failed(self, name: str, failure: RuleFailed) -> None:
        """A rule of this profile is broken: its fallback stands in for a while."""
        self._metrics.rule_failures.labels(failure.rule, failure.point).inc()
        post = self._posts.get(name)
        if post is None or post.standing(self._clock.now()) is post.fallback:
            return  # one of many calls that were under way when it failed first
        pause = min(OFF_DUTY_SECONDS * 2**post.failures, LONGEST_OFF_DUTY_SECONDS)
        post.failures = min(post.failures + 1, 16)
        post.off_duty_until = self._clock.now() + pause
        log.error(
            "profile %s: %s; its fallback stands in for %g s",
            name,
            failure,
            pause,
            exc_info=failure.__cause__,
        )
        self._on_failure(name, failure)
