"""The witness of `make churn`, `elastic` and `chaos`: every revision of etcd, read as it is written, and judged.

`history` reads, `checker` rebuilds who holds what and says where a promise is broken. What a pod asked for and which
cards a node has is told to it by annotations of its own (`words`), so that it shares no reading and no arithmetic with
the product. `plane` is a control plane whose history can be read, `stations` and `hands` what is done to it.
"""
