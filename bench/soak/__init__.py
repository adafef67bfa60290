"""`python -m bench.soak`: how Alnair stands a large cluster for long.

On 2,000 nodes of kwok's, three questions one after the other:

    recovery   with half of the pods running, the operator is restarted, killed, and told to end: how long until the
               next bind?
    flood      thousands of gangs that fit nowhere come at once: how much longer does one that fits wait?
    soak       all pods are there, and come and go for as many minutes as are asked for: does memory grow, does
               anybody wait longer and longer, and is every gang that waits told why?

`population` draws who comes and goes, `world` does it, `trend` judges whether figures grow. Nothing is asserted about
seconds here: a person, or docs/reliability.md, reads the figures.
"""
