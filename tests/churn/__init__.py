"""`make churn`: the proof that the ledger never lies.

Pods and gangs of every kind of GPU request come and go on a mixed cluster of a real control plane, while cards fail,
nodes vanish and the operator is killed. `history` reads every revision of etcd as it is written, `checker` rebuilds
from it who holds what, and judges each revision. What a pod asked for and which cards a node has is told to the
checker by annotations of the churn's own (`words`), so that it shares no reading and no arithmetic with the product.
"""
