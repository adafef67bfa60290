"""Jobs that may run with more or fewer pods, through a trace: how soon they end under one rule of sizing or another.

Pods are placed on nodes and cards by the search, as everywhere in the simulator. No rule knows how long a job lasts.
"""
