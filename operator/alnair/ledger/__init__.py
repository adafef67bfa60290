"""The only code that writes placements.

A gang's GPUAllocation is its commit record: `records` is what one says, `writer` the compare-and-swap writes,
`binding` how one pod is bound and the answer judged, `ledger` the protocol over them (commit, bind, settle, release,
roll back, repair), `recovery` what a new leader does first, and `lease` who the leader is.
"""
