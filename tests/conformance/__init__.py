"""Our filters against the real kube-scheduler: the same random cluster, the same pods, one verdict for each node.

`drawing/` draws scenarios (nodes, existing objects, pods under test), `stage.py` puts one on a real apiserver,
`kube.py` asks the kube-scheduler process which nodes a pod fits, `ours.py` asks our filters, `compare.py` lays the
answers side by side, `rules/` tells which rule decided, `report.py` prints a disagreement so that it can be
replayed. `python -m conformance --help` runs it.

What must never happen here: a verdict taken from anything but the two schedulers, or a pod that is bound.
"""
