"""Kopf and the feeds: events come in, are translated, and go to the books, the ledger and the roster.

`lifecycle` is the process, `leader` what it is made of while it leads, `kopf_thread` Kopf beside both; `podgroup`,
`topology` and `gpuallocation` are the Kopf handlers of the three kinds; `feeds` are the sinks of the Pod and Node
streams. All of them are thin: no rule and no decision is in here.
"""
