"""`make bench`: the same work through kube-scheduler and through Alnair, on one control plane, in one go.

Read `shapes.py` for the work, `contestants.py` for who does it, `throughput.py` and `latency.py` for how it is
measured. Nothing here may treat the contestants differently: same nodes, same pods, same watcher, same clock.
"""
