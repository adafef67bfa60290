"""A real control plane on one machine: etcd, kube-apiserver, kube-controller-manager, kwok.

For tests, the demo and benchmarks. Nothing here is ever imported by the operator, and nothing here is a
mock: the programs are the upstream ones, compiled at the versions that `golang/*/go.mod` pins.

Start reading at `control_plane.py` (what runs, with which flags); `binaries.py` says where the programs come
from, `keeper.py` how all of it is torn down when its owner dies.
"""
