"""What the kubelet's topology manager would say: the arithmetic of its hints, in pure functions.

`masks` are sets of NUMA nodes, `hints` what each manager offers, `merge` what the policy makes of them, `allocate` what
a container then takes, and `admit` the whole way of a pod through it. `make topology` compares it with the kubelet's
own code.
"""
