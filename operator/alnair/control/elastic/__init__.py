"""Elastic gangs on the cluster: how many members each is to have, and making it so.

What is best is reckoned in `scheduling.elastic`, which knows no cluster. Here are the cluster's answers to its
questions (what fits, what a hand has set, what may not change yet) and the carrying out, through the ledger: places for
members to come are committed before a target's replicas are raised, and members' slices are freed when they are gone.
"""
