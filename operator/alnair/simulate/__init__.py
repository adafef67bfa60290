"""Traces replayed through the scheduling core with no cluster: what a policy is worth before anybody runs it.

The rules, the search and the books are the very ones that place pods for real; only arrivals and departures come from
a file. No I/O beyond reading the trace, no clock, and chance only from the seed.
"""
