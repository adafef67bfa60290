"""Every name that Alnair shares with a cluster: groups, kinds, labels, annotations, resources, profiles.

A name that is written on an object or matched on one is spelt here and nowhere else. A name that has been
released is never changed: records and pods written under it are still out there.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

# --- kinds ------------------------------------------------------------------------------------------------
GROUP_PODGROUP: Final = "scheduling.x-k8s.io"
VERSION_PODGROUP: Final = "v1alpha1"
KIND_PODGROUP: Final = "PodGroup"
PLURAL_PODGROUP: Final = "podgroups"

GROUP_NRT: Final = "topology.node.k8s.io"
VERSION_NRT: Final = "v1alpha2"
KIND_NRT: Final = "NodeResourceTopology"
PLURAL_NRT: Final = "noderesourcetopologies"

GROUP_ALLOCATION: Final = "ai.centaurus.io"
VERSION_ALLOCATION: Final = "v1alpha1"
KIND_ALLOCATION: Final = "GPUAllocation"
PLURAL_ALLOCATION: Final = "gpuallocations"

GROUP_HOROVOD: Final = "ai.centauruscloud.io"
VERSION_HOROVOD: Final = "v1alpha1"
KIND_HOROVOD: Final = "ElasticHorovodJob"
PLURAL_HOROVOD: Final = "elastichorovodjobs"

API_PODGROUP: Final = f"{GROUP_PODGROUP}/{VERSION_PODGROUP}"
API_NRT: Final = f"{GROUP_NRT}/{VERSION_NRT}"
API_ALLOCATION: Final = f"{GROUP_ALLOCATION}/{VERSION_ALLOCATION}"
API_HOROVOD: Final = f"{GROUP_HOROVOD}/{VERSION_HOROVOD}"

# --- how pods join a group ----------------------------------------------------------------------------------
POD_GROUP_LABEL: Final = f"{GROUP_PODGROUP}/pod-group"

PREFIX: Final = "ai.centaurus.io/"

# --- written on a pod, inside its Binding -------------------------------------------------------------------
NODE: Final = f"{PREFIX}node"
GPU_ID: Final = f"{PREFIX}alnair-gpu-id"  # card UUIDs, comma-separated
GPU_SLICES: Final = f"{PREFIX}gpu-slices"  # JSON

# --- a condition of a pod that kube-scheduler is to try again (see extender/waiting) --------------------------
CARDS_FREED: Final = f"{PREFIX}CardsFreed"

# --- the environment of a GPU container: each variable reads an annotation that the Binding fills -------------------
ENV_DOMAIN: Final = "env.ai.centaurus.io"  # keys are <container>.env.ai.centaurus.io/<value>: see env_key
VISIBLE_DEVICES: Final = "visible-devices"  # what NVIDIA's runtime shows to the container: UUIDs, or indices
GPU_IDS: Final = "gpu-ids"  # the cards as the record names them
MEMORY_MIB: Final = "memory-mib"  # of each card, in the same order
SM_LIMIT: Final = "sm-limit"  # per cent of each card, for HAMi-core; 0 = no limit
MEMORY_LIMIT: Final = (
    "memory-limit-"  # and the card's position: for HAMi-core, which reads a trailing m as MiB
)
ENV_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
ENV_OF_CARDS: Final = {
    ENV_VISIBLE_DEVICES: VISIBLE_DEVICES,
    "ALNAIR_GPU_IDS": GPU_IDS,
    "ALNAIR_GPU_MEMORY_MIB": MEMORY_MIB,
}
ENV_SM_LIMIT: Final = "CUDA_DEVICE_SM_LIMIT"
ENV_MEMORY_LIMIT: Final = "CUDA_DEVICE_MEMORY_LIMIT_"  # and the card's position
MOST_LIMITED_CARDS: Final = 16  # of one container; the policy of the chart counts so far

# --- what a pod asks for by annotation ----------------------------------------------------------------------
GPU_MEMORY: Final = f"{PREFIX}gpu-memory"  # a quantity with a unit: 6Gi, 6000Mi
GPU_COMPUTE: Final = f"{PREFIX}gpu-compute"  # per cent of one card
GPU_COUNT: Final = f"{PREFIX}gpu-count"  # that slice on so many distinct cards; without memory: whole cards
GPU_SHARING: Final = f"{PREFIX}gpu-sharing"  # whether others may have the rest of the cards
EXCLUSIVE: Final = "exclusive"
SHARED: Final = "shared"
GPU_CONTAINER: Final = f"{PREFIX}gpu-container"  # which container the four above speak of; else the first
GPU_MODEL: Final = f"{PREFIX}gpu-model"  # comma-separated list of allowed models
GPU_MODEL_NOT: Final = f"{PREFIX}gpu-model-not"  # and of models that it must not be
GPU_UUID: Final = f"{PREFIX}gpu-uuid"  # comma-separated list of allowed cards: UUID or NODE/INDEX
GPU_UUID_NOT: Final = f"{PREFIX}gpu-uuid-not"
HAMI_USE_TYPE: Final = "nvidia.com/use-gputype"  # parts of models' names, whatever their case
HAMI_NO_USE_TYPE: Final = "nvidia.com/nouse-gputype"
HAMI_USE_UUID: Final = "nvidia.com/use-gpuuuid"
HAMI_NO_USE_UUID: Final = "nvidia.com/nouse-gpuuuid"
CHOICE_ANNOTATIONS: Final = frozenset(
    {
        GPU_MODEL,
        GPU_MODEL_NOT,
        GPU_UUID,
        GPU_UUID_NOT,
        HAMI_USE_TYPE,
        HAMI_NO_USE_TYPE,
        HAMI_USE_UUID,
        HAMI_NO_USE_UUID,
    }
)

# --- what workloads of a kind used at most before, on their pods, their PodGroup or their controller ---------
PEAK_GPU_UTIL: Final = f"{PREFIX}peak-gpu-util"  # per cent of one card
PEAK_GPU_MEMORY: Final = f"{PREFIX}peak-gpu-memory"  # a quantity, on one card: 6Gi
PEAK_CPU: Final = f"{PREFIX}peak-cpu"  # a quantity: 1500m
PEAK_ANNOTATIONS: Final = frozenset({PEAK_GPU_UTIL, PEAK_GPU_MEMORY, PEAK_CPU})

# --- what a member of an elastic gang measures -------------------------------------------------------------
THROUGHPUT: Final = (
    f"{PREFIX}throughput"  # 512.5 at the present size, or 512.5@4 with four members; several by commas
)
POD_INDEX: Final = "apps.kubernetes.io/pod-index"  # label: a StatefulSet's pod's ordinal
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"  # a ReplicaSet deletes the cheapest first

# --- what a gang asks for by annotation, of its PodGroup or its pods -----------------------------------------
TOPOLOGY_REQUIRED: Final = f"{PREFIX}topology-required"  # a level's name, or a node label
TOPOLOGY_PREFERRED: Final = f"{PREFIX}topology-preferred"
KUEUE_REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"  # a node label
KUEUE_PREFERRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-preferred-topology"
KAI_REQUIRED_TOPOLOGY: Final = "kai.scheduler/topology-required-placement"
KAI_PREFERRED_TOPOLOGY: Final = "kai.scheduler/topology-preferred-placement"

# --- what a pod asks for by resource ------------------------------------------------------------------------
NVIDIA_GPU: Final = "nvidia.com/gpu"  # whole cards; slices when one of the next three stands beside it
NVIDIA_GPUMEM: Final = "nvidia.com/gpumem"  # MiB on each card (HAMi)
NVIDIA_GPUMEM_PERCENTAGE: Final = "nvidia.com/gpumem-percentage"  # of each card's memory (HAMi)
NVIDIA_GPUCORES: Final = "nvidia.com/gpucores"  # per cent of each card (HAMi)
VGPU_MEMORY: Final = "alnair/vgpu-memory"  # GiB on one card
VGPU_COMPUTE: Final = "alnair/vgpu-compute"  # per cent of that card
GPU_RESOURCES: Final = frozenset(
    {NVIDIA_GPU, NVIDIA_GPUMEM, NVIDIA_GPUMEM_PERCENTAGE, NVIDIA_GPUCORES, VGPU_MEMORY, VGPU_COMPUTE}
)

# --- read from a node ---------------------------------------------------------------------------------------
GPU_OWNER: Final = f"{PREFIX}gpu-owner"  # label: who hands out this node's cards
OWNED_BY_ALNAIR: Final = "alnair"
OWNED_BY_DEVICE_PLUGIN: Final = "device-plugin"
PHYSICAL_GPU_COUNT: Final = f"{PREFIX}physical-gpu-count"
PHYSICAL_GPU_UUIDS: Final = f"{PREFIX}physical-gpu-uuids"
VIRTUAL_GPU_COUNT: Final = f"{PREFIX}virtual-gpu-count"
VIRTUAL_GPU_COUNT_MISSPELT: Final = f"{PREFIX}vitual-gpu-count"  # what older profilers write
GPU_STATIC: Final = f"{PREFIX}gpu-static"
GPU_READING: Final = re.compile(
    rf"{re.escape(PREFIX)}gpu-(?:0|[1-9][0-9]?)"
)  # of one card: gpu-0, gpu-1, ...
NODE_READING: Final = f"{PREFIX}node-util"  # of the node itself: CPU and I/O, in the same form
LINK_GBYTE: Final = f"{PREFIX}link-gbyte"  # label: GB/s between the node's cards, both directions together
NETWORK_GBIT: Final = f"{PREFIX}network-gbit"  # label: Gbit/s to other nodes
HAMI_REGISTER: Final = "hami.io/node-nvidia-register"  # JSON
HAMI_SCORES: Final = "hami.io/node-nvidia-score"  # JSON: how well cards are linked
GFD_PRODUCT: Final = "nvidia.com/gpu.product"
GFD_MEMORY: Final = "nvidia.com/gpu.memory"  # MiB
GFD_COUNT: Final = "nvidia.com/gpu.count"
DEPLOY_DEVICE_PLUGIN: Final = "nvidia.com/gpu.deploy.device-plugin"  # label of NVIDIA's GPU operator
DEVICE_PLUGIN_PREFIXES: Final = ("nvidia.com/gpu", "nvidia.com/mig-")  # of what a device plugin advertises

# --- on a NodeResourceTopology of our own, for people who select by it ----------------------------------------
MANAGED_BY: Final = f"{PREFIX}managed-by"
ALNAIR: Final = "alnair"

# --- on a commit record -------------------------------------------------------------------------------------
OWNER_KIND: Final = f"{PREFIX}owner-kind"
OWNER_NAME: Final = f"{PREFIX}owner-name"
OWNER_UID: Final = f"{PREFIX}owner-uid"
INSTANCE: Final = f"{PREFIX}instance"  # whose record it is: the Lease of its operator
PLAN: Final = f"{PREFIX}plan"  # on a record that was decided by its creation
SERVES: Final = f"{PREFIX}serves"  # on the Lease: the schedulers whose pods its holder binds
FENCED: Final = (
    f"{PREFIX}fenced"  # on a record whose status could not be written: the epoch of who took it over
)
FINALIZER: Final = f"{PREFIX}ledger"

# --- on what an ElasticHorovodJob consists of -----------------------------------------------------------------
HOROVOD_JOB: Final = f"{GROUP_HOROVOD}/elastichorovodjob"  # label: the job's name
HOROVOD_JOB_UID: Final = f"{GROUP_HOROVOD}/elastichorovodjob-uid"  # label: no two jobs' children share it
HOROVOD_ROLE: Final = f"{GROUP_HOROVOD}/role"  # label of pods
WORKER: Final = "worker"
LAUNCHER: Final = "launcher"
HOROVOD_MADE_FROM: Final = (
    f"{GROUP_HOROVOD}/made-from"  # annotation of pods: digits of what the job's spec said
)
HOROVOD_HOSTS: Final = f"{GROUP_HOROVOD}/hosts"  # annotation of a launcher: digits of the script
HOROVOD_FINALIZER: Final = f"{GROUP_HOROVOD}/children"

# --- profiles as shipped ------------------------------------------------------------------------------------
PROFILE_DEFAULT: Final = "alnair"
PROFILE_COST_SAVING: Final = "alnair-cost-saving"
PROFILE_HIGH_PERFORMANCE: Final = "alnair-high-performance"
PROFILE_BEST_FIT: Final = "alnair-best-fit"
PROFILE_UTILIZATION: Final = "alnair-utilization"
PROFILE_UTILSCHED: Final = "utilsched"  # the same, by its old name

_NAME_LIMIT: Final = 253  # of a Kubernetes object
_LABEL_LIMIT: Final = 63
_NOT_IN_A_DNS_LABEL: Final = re.compile(r"[^a-z0-9-]")
_NOT_IN_A_LABEL: Final = re.compile(r"[^A-Za-z0-9._-]")


def env_key(container: str, value: str) -> str:
    """The annotation that a container's environment reads a value from.

    The container stands in the domain and not in the name, which has 63 characters for itself alone: container names
    may have as many. They are unique in a pod, and stay what they are when somebody's webhook adds a container.
    """
    return f"{container}.{ENV_DOMAIN}/{value}"


def env_of_container(cards: int, *, whole: bool) -> dict[str, str]:
    """Environment variable -> value that it reads, of a container with so many cards. Whole ones need no limits."""
    if whole:
        return dict(ENV_OF_CARDS)
    limits = {f"{ENV_MEMORY_LIMIT}{index}": f"{MEMORY_LIMIT}{index}" for index in range(cards)}
    return {**ENV_OF_CARDS, ENV_SM_LIMIT: SM_LIMIT, **limits}


def fingerprint(text: str) -> str:
    # surrogatepass: a lone surrogate out of somebody's JSON must not raise where a name is made
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def record_name(owner_name: str, owner_uid: str) -> str:
    """The name of the GPUAllocation of this owner: `<owner's name>-<8 hex of the owner's UID>`.

    The hex digits come from the UID alone, so that a group and a pod of one name, or a group deleted and made
    again, never meet in one record. A long owner's name is cut, never the digits.
    """
    # A cut may end in '.' or '-', which a name must not have before our '-': "a.-1f…" is no valid name.
    kept = owner_name[: _NAME_LIMIT - 9].rstrip(".-")
    return f"{kept}-{fingerprint(owner_uid)}" if kept else fingerprint(owner_uid)


def label_value(text: str) -> str:
    """A valid label value (at most 63 characters) for a name; equal to the name wherever the name is valid.

    A name that has to be altered ends in digits of its own, so that two long names that differ only
    past the cut get two labels.
    """
    cleaned = _NOT_IN_A_LABEL.sub("-", text).strip("._-")
    if cleaned == text and len(text) <= _LABEL_LIMIT:
        return text
    kept = cleaned[: _LABEL_LIMIT - 9].rstrip("._-")
    return f"{kept}-{fingerprint(text)}" if kept else fingerprint(text)


def dns_label(name: str, limit: int) -> str:
    """A name of at most so many characters that also a Service may have: letters, digits and '-', a letter first.

    Equal to the name wherever that is one; else it ends in digits of the name, so that no two names become one.
    """
    cleaned = _NOT_IN_A_DNS_LABEL.sub("-", name).strip("-")
    if cleaned == name and len(name) <= limit and name[0].isalpha():
        return name
    lettered = cleaned if cleaned[:1].isalpha() else f"j{cleaned}"
    return f"{lettered[: limit - 9].rstrip('-')}-{fingerprint(name)}"
