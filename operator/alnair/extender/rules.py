"""Which of a profile's rules are asked here: those that kube-scheduler cannot know.

It has asked its own before it asks us, and scores by its own beside us. Asking those again would cost time, and count
wishes twice. Rules of third parties are none of its own, so they are asked.
"""

from __future__ import annotations

from dataclasses import replace

from alnair.scheduling.profile import Profile

FILTERED_BY_KUBE_SCHEDULER = frozenset(
    {
        "NodeName",
        "NodeSelector",
        "NodeAffinity",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeReady",  # by taints
        "NodePorts",
        "VolumeBinding",
        "VolumeZone",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "InterPodAffinity",
        "PodTopologySpread",
        "NodeResourcesFit",
    }
)
SCORED_BY_KUBE_SCHEDULER = frozenset(
    {"NodeAffinity", "InterPodAffinity", "PodTopologySpread", "TaintToleration", "ImageLocality"}
)


def beside_kube_scheduler(profile: Profile) -> Profile:
    return replace(
        profile,
        filters=tuple(rule for rule in profile.filters if rule.name not in FILTERED_BY_KUBE_SCHEDULER),
        scorers=tuple(pair for pair in profile.scorers if pair[0].name not in SCORED_BY_KUBE_SCHEDULER),
    )
