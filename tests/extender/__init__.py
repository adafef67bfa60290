"""The real kube-scheduler, configured to ask the extender of a real operator: every pod here is default-scheduler's.

`plane` starts them; the tests judge every revision of etcd with the witness's checker.
"""
