"""What the tests stand on: one real control plane a session, a namespace a test, builders, waits on watches.

`from harness.builders import pod, group, node` and `from harness.api import Api, at`; the fixtures are in
`fixtures.py`. Nothing here sleeps to wait for the cluster.
"""
