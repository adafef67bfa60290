"""The loop: takes gangs in order, asks `scheduling` for a plan, gives it to `ledger`, tells people.

`loop` is the algorithm on one screen; `gangs` knows which pods belong together, `reports` writes conditions and
events about them, `metrics` counts.
"""
