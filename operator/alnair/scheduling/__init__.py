"""Where pods go. PURE: no I/O, no clock, no randomness that is not passed in.

`search` is the place to start reading: a gang and a draft of the cluster in, a `Plan` or a `Refusal` out. Rules are
in `plugins/`, one file each.
"""
