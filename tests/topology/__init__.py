"""Our arithmetic of NUMA alignment against the kubelet's own code: `make topology`.

Random machines and pods (`drawing`) are put to the kubelet's packages (`oracle/main.go`, run by `kubelet`) and to ours
(`ours`); `compare` tells where they differ, and `shrink` how little it takes to see it.
"""
