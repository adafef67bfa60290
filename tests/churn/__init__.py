"""`make churn`: the proof that the ledger never lies.

Pods and gangs of every kind of GPU request come and go on a mixed cluster of a real control plane, while cards fail,
nodes vanish and the operator is killed. The witness (`tests/witness`) reads every revision of etcd as it is written and
judges it.
"""
