"""The small vocabulary that scenarios are made of: few words, so that they meet often."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]

SCHEDULER = "conformance"
NAMESPACES = ("red", "green", "blue", "grey")
CROWDED = (("red", 0.45), ("green", 0.25), ("blue", 0.2), ("grey", 0.1))
"""How often a pod is in each: one is crowded, so that its pods meet."""

NAMESPACE_LABELS = {"team": ("one", "two"), "env": ("prod", "test")}

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
RACK = "example.com/rack"
TOPOLOGY_KEYS = (HOSTNAME, ZONE, ZONE, RACK, REGION)
SPREAD_KEYS = (ZONE, ZONE, "pool", "pool", "disk", HOSTNAME, RACK, REGION)
"""With many that divide the nodes into few domains: in those the numbers are large enough to differ."""

POD_LABELS = {"app": ("web", "db", "cache"), "tier": ("front", "back"), "rev": ("1", "2")}
NODE_LABELS = {"disk": ("ssd", "hdd"), "gen": ("3", "7", "12", "old"), "pool": ("a", "b")}

NEVER = {"conformance.example/never": "true"}
"""A node selector that no node meets: a pod with it waits, whatever else it asks for."""

# name -> value. None preempts: kube-scheduler would delete existing pods, and drop the nominations of waiting ones.
PRIORITIES = {"low": -10, "middle": 0, "high": 1000}

RUNTIMES: dict[str, Manifest] = {
    "heavy": {"overhead": {"podFixed": {"cpu": "150m", "memory": "24Mi"}}},
    "thin": {"overhead": {"podFixed": {"cpu": "30m"}}},
    "broad": {"overhead": {"podFixed": {"memory": "7Mi"}}},
    "odd": {"overhead": {"podFixed": {"memory": "1001", "example.com/fpga": "1"}}},
    "picky": {
        "overhead": {"podFixed": {"cpu": "40m"}},
        "scheduling": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        },
    },
}
OVERHEAD = {
    "heavy": {"cpu": 150, "memory": 24 << 20},
    "thin": {"cpu": 30},
    "broad": {"memory": 7 << 20},
    "odd": {"memory": 1001, "example.com/fpga": 1},
    "picky": {"cpu": 40},
}

FPGA = "example.com/fpga"
GPU = "nvidia.com/gpu"
PAGES = "hugepages-2Mi"
PAGE = 2 << 20
