"""The policies by name: each a profile of the scheduling core, made anew for a run.

Every profile that Alnair ships is a policy, by its schedulerName or without `alnair-` in front, and so is every profile
of a config file. A policy is told of every pod that comes before it is placed, and of nothing else: who learns, learns
from arrivals. FGD alone knows the whole trace beforehand, as in its paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from alnair.api import names
from alnair.api.profiles import BASELINES, SHIPPED, Rule
from alnair.api.profiles import Profile as ProfileConfig
from alnair.scheduling.plugins.baselines import Random
from alnair.scheduling.plugins.fragmentation import FGD
from alnair.scheduling.profile import Profile, build
from alnair.scheduling.registry import installed
from alnair.simulate.trace import Trace
from alnair.state.shapes import PodClass


def policies(profiles: Iterable[ProfileConfig] = ()) -> dict[str, ProfileConfig]:
    """What `--policy` may name; `profiles` of a config file go before ours of the same name."""
    own = {profile.scheduler_name: profile for profile in profiles}
    found = {profile.scheduler_name: profile for profile in (*SHIPPED, *BASELINES)} | own
    short = {name.removeprefix(f"{names.PROFILE_DEFAULT}-"): profile for name, profile in found.items()}
    return short | found


POLICIES: Mapping[str, ProfileConfig] = policies()


class Policy:
    """One profile through one run."""

    def __init__(self, profile: ProfileConfig, trace: Trace, seed: int) -> None:
        self.profile: Profile = build(_seeded(profile, seed), installed())
        self._foreknown = [rule for rule in self.profile.learners if isinstance(rule, FGD)]
        for rule in self._foreknown:
            rule.foresee(job.shape for job in trace.jobs for _ in range(job.pods))

    def arrived(self, pod: PodClass) -> None:
        """A pod came. The profile is another one when what is remembered of the old one no longer holds."""
        if not self._foreknown:
            self.profile = self.profile.after(pod)


def _seeded(profile: ProfileConfig, seed: int) -> ProfileConfig:
    """Chance is the run's."""

    def given(rule: Rule) -> Rule:
        return (
            rule.model_copy(update={"options": {"seed": seed, **rule.options}})
            if rule.name == Random.name
            else rule
        )

    return profile.model_copy(
        update={"scorers": [given(scorer) for scorer in profile.scorers], "picker": given(profile.picker)}
    )
