"""`make failover`: two replicas under load; the leader is killed, or paused past its lease, again and again.

The witness judges every revision of etcd meanwhile: a leader that comes back late must have lost every write. `load`
lets gangs come and go, `replicas` knows who leads and what becomes of it, `run` puts them together and takes the time
from each fault to the first bind of a pod that came after it.
"""
