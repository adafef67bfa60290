"""The part of the config file about the extender. Without it there is none.

    extender:
      schedulerNames: [default-scheduler]
      profile: alnair

Where it listens and whom it lets in is said by flags of `alnair run`: secrets are files, and no part of a config.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, field_validator

from alnair.api import names
from alnair.api.profiles import Part, SchedulerName, refuse_repeats

DEFAULT_SCHEDULER: Final = "default-scheduler"
# kube-scheduler sends pods that ask for one of these, and counts none of them itself.
SLICE_RESOURCES: Final = (
    names.VGPU_MEMORY,
    names.VGPU_COMPUTE,
    names.NVIDIA_GPUMEM,
    names.NVIDIA_GPUMEM_PERCENTAGE,
    names.NVIDIA_GPUCORES,
)


class Extender(Part):
    """Which pods of kube-scheduler get cards from Alnair, and by which rules."""

    # kube-scheduler's own profiles; none of them may be a profile of Alnair's
    scheduler_names: Annotated[list[SchedulerName], Field(min_length=1, max_length=16)] = Field(
        default_factory=lambda: [DEFAULT_SCHEDULER]
    )
    # the profile whose rules choose among the nodes, and whose picker among the cards
    profile: SchedulerName = names.PROFILE_DEFAULT
    # pods that ask for nvidia.com/gpu and nothing else too: Alnair counts whole cards then, and kube-scheduler does not
    whole_cards: bool = False

    @field_validator("scheduler_names")
    @classmethod
    def _each_once(cls, scheduler_names: list[str]) -> list[str]:
        refuse_repeats(scheduler_names, "the name")
        return scheduler_names

    def fits(self, profiles: list[str]) -> None:
        """Raises ValueError if it does not go with the profiles of these scheduler names."""
        if self.profile not in profiles:
            raise ValueError(
                f"extender.profile {self.profile!r} is none of the profiles; there are {', '.join(profiles)}"
            )
        if both := sorted(set(self.scheduler_names) & set(profiles)):
            raise ValueError(
                f"extender.schedulerNames: {both[0]!r} is a profile of Alnair's, which places its pods; remove it"
            )

    @property
    def managed_resources(self) -> tuple[str, ...]:
        return (*SLICE_RESOURCES, names.NVIDIA_GPU) if self.whole_cards else SLICE_RESOURCES
