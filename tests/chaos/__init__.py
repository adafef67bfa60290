"""`make chaos`: whatever dies, whenever it dies, no gang stays half, nothing is given twice, nothing leaks.

Operators run behind a proxy of ours (`proxy`) that sees and numbers every write of theirs. A *run* is a scenario
(`scenarios`) and faults, each at the number of a call (`faults`): the operator killed before or after it, the call
dropped, repeated, delayed or refused, watches cut, nodes and members taken away while it is under way. Exhaustively for
kills (`crash_points`), drawn from a seed for all of them (`histories`). The witness (`tests/witness`) judges every
revision of etcd; each run ends at rest, silent, and as its scenario says, and then leaves nothing behind.
"""
