"""Alnair's own rules by name, one file each; a profile chooses among them. Each is a class: see interface.

Filters stand in the order in which they are asked: the first that fails is the reason that people read, so what is
cheapest to mend stands first.
"""

from __future__ import annotations

from alnair.scheduling.plugins.allocated import Allocated
from alnair.scheduling.plugins.allocation_scores import BinPack, Spread
from alnair.scheduling.plugins.balanced_resource import BalancedResource
from alnair.scheduling.plugins.baselines import Clustering, DotProduct, Packing, Random, TightestNode
from alnair.scheduling.plugins.basic import Basic
from alnair.scheduling.plugins.card_order import BestFit, WorstFit
from alnair.scheduling.plugins.coolest import Coolest
from alnair.scheduling.plugins.delivery import Delivery
from alnair.scheduling.plugins.equal import Equal
from alnair.scheduling.plugins.fragmentation import FGD
from alnair.scheduling.plugins.gpu_cards import GPUCards
from alnair.scheduling.plugins.image_locality import ImageLocality
from alnair.scheduling.plugins.inter_pod_affinity import InterPodAffinity, PreferredCompany
from alnair.scheduling.plugins.interface import Filter, Picker, Scorer, Sorter
from alnair.scheduling.plugins.kubelet_refusals import KubeletRefusals
from alnair.scheduling.plugins.label_preference import LabelPreference
from alnair.scheduling.plugins.node_affinity import NodeAffinity, PreferredNodeAffinity
from alnair.scheduling.plugins.node_label import NodeLabel
from alnair.scheduling.plugins.node_name import NodeName
from alnair.scheduling.plugins.node_ports import NodePorts
from alnair.scheduling.plugins.node_ready import NodeReady
from alnair.scheduling.plugins.node_resource_topology import (
    LeastNUMANodes,
    NodeResourceTopologyMatch,
    NUMACost,
)
from alnair.scheduling.plugins.node_resources_fit import NodeResourcesFit
from alnair.scheduling.plugins.node_selector import NodeSelector
from alnair.scheduling.plugins.node_unschedulable import NodeUnschedulable
from alnair.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from alnair.scheduling.plugins.pod_topology_spread import PodTopologySpread, SoftSpread
from alnair.scheduling.plugins.potential import Potential
from alnair.scheduling.plugins.protection import Protection
from alnair.scheduling.plugins.queue_order import FewestCards, MostCards
from alnair.scheduling.plugins.requested_scores import LeastRequested, MostRequested
from alnair.scheduling.plugins.requested_to_capacity_ratio import RequestedToCapacityRatio
from alnair.scheduling.plugins.service_affinity import ServiceAffinity, ServiceAntiAffinity
from alnair.scheduling.plugins.service_spreading import ServiceSpreading
from alnair.scheduling.plugins.taint_toleration import PreferUntainted, TaintToleration
from alnair.scheduling.plugins.utilization import Utilization
from alnair.scheduling.plugins.volume_binding import VolumeBinding
from alnair.scheduling.plugins.volume_restrictions import VolumeRestrictions
from alnair.scheduling.plugins.volume_zone import VolumeZone

FILTERS: dict[str, type[Filter]] = {
    rule.name: rule
    for rule in (
        NodeName,
        NodeSelector,
        NodeAffinity,
        NodeLabel,
        NodeUnschedulable,
        TaintToleration,
        NodeReady,
        KubeletRefusals,
        NodePorts,
        VolumeBinding,
        VolumeZone,
        VolumeRestrictions,
        NodeVolumeLimits,
        InterPodAffinity,
        PodTopologySpread,
        ServiceAffinity,
        NodeResourcesFit,
        NodeResourceTopologyMatch,
        Delivery,
        GPUCards,
    )
}
SCORERS: dict[str, type[Scorer]] = {
    rule.name: rule
    for rule in (
        BinPack,
        Spread,
        LeastRequested,
        MostRequested,
        RequestedToCapacityRatio,
        BalancedResource,
        ServiceSpreading,
        ServiceAntiAffinity,
        LabelPreference,
        Equal,
        Potential,
        Protection,
        TightestNode,
        Basic,
        Utilization,
        Allocated,
        LeastNUMANodes,
        NUMACost,
        PreferredNodeAffinity,
        PreferredCompany,
        SoftSpread,
        PreferUntainted,
        ImageLocality,
        FGD,
        Packing,
        Clustering,
        DotProduct,
        Random,
    )
}
PICKERS: dict[str, type[Picker]] = {
    rule.name: rule for rule in (BestFit, WorstFit, Coolest, Potential, FGD, Random)
}
SORTERS: dict[str, type[Sorter]] = {rule.name: rule for rule in (FewestCards, MostCards)}

__all__ = ["FILTERS", "PICKERS", "SCORERS", "SORTERS", "Filter", "Picker", "Scorer", "Sorter"]
