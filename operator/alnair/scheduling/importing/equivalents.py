"""Old names and ours. Tables only; what has arguments is read in policy and configuration.

A predicate or priority of any kube-scheduler from 1.0 to 1.22 is here, or in one of the tables of what there is none of
and why. Names that are in neither were somebody's own.
"""

from __future__ import annotations

from typing import Final

GENERAL: Final = ("NodeName", "NodePorts", "NodeSelector", "NodeAffinity", "NodeResourcesFit")

PREDICATES: Final[dict[str, tuple[str, ...]]] = {
    "PodFitsPorts": ("NodePorts",),  # 1.0's name
    "PodFitsHostPorts": ("NodePorts",),
    "PodFitsResources": ("NodeResourcesFit",),
    "HostName": ("NodeName",),
    "MatchNodeSelector": ("NodeSelector", "NodeAffinity"),
    "GeneralPredicates": GENERAL,
    "NoDiskConflict": ("VolumeRestrictions",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "NoVolumeNodeConflict": ("VolumeBinding",),  # until 1.8
    "CheckVolumeBinding": ("VolumeBinding",),
    "MaxEBSVolumeCount": ("NodeVolumeLimits",),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
    "MaxCinderVolumeCount": ("NodeVolumeLimits",),
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "EvenPodsSpread": ("PodTopologySpread",),
    "PodToleratesNodeTaints": ("TaintToleration",),
    "PodToleratesNodeNoExecuteTaints": ("TaintToleration",),
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    # Conditions have been taints since 1.12: the node controller writes them.
    "CheckNodeCondition": ("NodeReady", "NodeUnschedulable", "TaintToleration"),
    "CheckNodeMemoryPressure": ("TaintToleration",),
    "CheckNodeDiskPressure": ("TaintToleration",),
    "CheckNodePIDPressure": ("TaintToleration",),
}

PRIORITIES: Final[dict[str, str]] = {
    "LeastRequestedPriority": "LeastRequested",
    "MostRequestedPriority": "MostRequested",
    "BalancedResourceAllocation": "BalancedResource",
    "ServiceSpreadingPriority": "ServiceSpreading",
    "SelectorSpreadPriority": "ServiceSpreading",
    "InterPodAffinityPriority": "InterPodAffinity",
    "NodeAffinityPriority": "NodeAffinity",
    "TaintTolerationPriority": "TaintToleration",
    "ImageLocalityPriority": "ImageLocality",
    "EvenPodsSpreadPriority": "PodTopologySpread",
    "EqualPriority": "Equal",
}

# What kube-scheduler 1.22 did where a Policy had no list.
DEFAULT_PRIORITIES: Final = {
    "SelectorSpreadPriority": 1,
    "InterPodAffinityPriority": 1,
    "LeastRequestedPriority": 1,
    "BalancedResourceAllocation": 1,
    "NodeAffinityPriority": 1,
    "TaintTolerationPriority": 1,
    "ImageLocalityPriority": 1,
    "EvenPodsSpreadPriority": 2,
}

NO_PRIORITY: Final = {
    "NodePreferAvoidPodsPriority": "the annotation scheduler.alpha.kubernetes.io/preferAvoidPods is not read; taint "
    "the nodes with PreferNoSchedule instead, which TaintToleration reads",
    "ResourceLimitsPriority": "limits are not looked at, only requests",
}

FRAMEWORK_FILTERS: Final[dict[str, tuple[str, ...]]] = {
    "NodeUnschedulable": ("NodeUnschedulable",),
    "NodeName": ("NodeName",),
    "TaintToleration": ("TaintToleration",),
    "NodeAffinity": ("NodeSelector", "NodeAffinity"),
    "NodePorts": ("NodePorts",),
    "NodeResourcesFit": ("NodeResourcesFit",),
    "VolumeRestrictions": ("VolumeRestrictions",),
    "NodeVolumeLimits": ("NodeVolumeLimits",),
    "EBSLimits": ("NodeVolumeLimits",),
    "GCEPDLimits": ("NodeVolumeLimits",),
    "AzureDiskLimits": ("NodeVolumeLimits",),
    "CinderLimits": ("NodeVolumeLimits",),
    "VolumeBinding": ("VolumeBinding",),
    "VolumeZone": ("VolumeZone",),
    "PodTopologySpread": ("PodTopologySpread",),
    "InterPodAffinity": ("InterPodAffinity",),
    "NodeResourceTopologyMatch": ("NodeResourceTopologyMatch",),  # scheduler-plugins
    # the schedulers that Alnair succeeds
    "vGPUScheduler": ("GPUCards",),
    "alnaircostsaving": ("GPUCards",),
    "alnairhighperformance": ("GPUCards",),
}

FRAMEWORK_SCORES: Final[dict[str, tuple[str, ...]]] = {
    "NodeResourcesLeastAllocated": ("LeastRequested",),
    "NodeResourcesMostAllocated": ("MostRequested",),
    "NodeResourcesBalancedAllocation": ("BalancedResource",),
    "ImageLocality": ("ImageLocality",),
    "InterPodAffinity": ("InterPodAffinity",),
    "NodeAffinity": ("NodeAffinity",),
    "PodTopologySpread": ("PodTopologySpread",),
    "SelectorSpread": ("ServiceSpreading",),
    "DefaultPodTopologySpread": ("ServiceSpreading",),  # its name in 1.18
    "TaintToleration": ("TaintToleration",),
    "vGPUScheduler": ("BinPack",),
    "alnaircostsaving": ("BinPack",),
    "alnairhighperformance": ("Spread",),
    "utilsched": ("Basic", "Utilization", "Allocated"),
}

# What runs where the file does not say otherwise.
DEFAULT_FILTERS: Final = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
)
DEFAULT_SCORES: Final = {
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "InterPodAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "TaintToleration": 3,
}
# Before v1beta3 wishes counted less, and before v1beta2 resources were scored by a plugin of their own.
_V1BETA2: Final = {**DEFAULT_SCORES, "InterPodAffinity": 1, "NodeAffinity": 1, "TaintToleration": 1}
_V1BETA1: Final = {
    **{name: weight for name, weight in _V1BETA2.items() if name != "NodeResourcesFit"},
    "NodeResourcesLeastAllocated": 1,
}
DEFAULT_SCORES_BY_VERSION: Final = {
    "v1alpha1": _V1BETA1,
    "v1alpha2": _V1BETA1,
    "v1beta1": _V1BETA1,
    "v1beta2": _V1BETA2,
}

# Alnair does these by itself, whatever a profile says.
INHERENT: Final = {
    "PrioritySort": "gangs are tried by priority and age",
    "DefaultBinder": "Alnair's ledger binds",
    "SchedulingGates": "gated pods are not looked at",
    "Coscheduling": "gangs are placed whole or not at all",
    "GangScheduling": "gangs are placed whole or not at all",
}

# Left out of a profile only with --exact. A Policy could not name them, or its author did not know what follows.
ALWAYS: Final = {
    "NodeReady": "Alnair's own",
    "KubeletRefusals": "Alnair's own",
    "NodeResourceTopologyMatch": "Alnair's own",
    "Delivery": "Alnair's own",
    "GPUCards": "Alnair's own",
    "NodeUnschedulable": "kube-scheduler ran it whatever the file said",
    "TaintToleration": "kube-scheduler ran it whatever the file said",
    "NodeName": "the kubelet would refuse the pod",
    "NodeSelector": "the kubelet would refuse the pod",
    "NodeAffinity": "the kubelet would refuse the pod",
    "NodePorts": "the kubelet would refuse the pod",
    "NodeResourcesFit": "the kubelet would refuse the pod",
    "VolumeBinding": "claims that wait for their first pod would wait for ever",
}
MANDATORY: Final = ("NodeUnschedulable", "TaintToleration")  # of kube-scheduler itself, since 1.12

# May be left out: then pods' rules of that kind are not looked at, as kube-scheduler did not.
OPTIONAL: Final = {
    "VolumeZone": "NoVolumeZoneConflict",
    "VolumeRestrictions": "NoDiskConflict",
    "NodeVolumeLimits": "MaxCSIVolumeCountPred",
    "InterPodAffinity": "MatchInterPodAffinity",
    "PodTopologySpread": "EvenPodsSpread",
}
