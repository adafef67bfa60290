"""`make elastic`: the proof that elastic gangs grow and shrink without races.

Twenty elastic gangs and more, of StatefulSets and Deployments, live through random events on a real control plane: jobs
come and go, nodes come and go, somebody scales by hand, members fail, the operator is killed. The witness
(`tests/witness`) reads every revision of etcd and judges who holds which card; `sizes` judges at every revision how
many members a gang has and who changed it; `rest` judges what is left idle when nothing is written any more. None of
them shares a line with the product.
"""
