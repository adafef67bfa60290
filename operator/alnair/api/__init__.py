"""The vocabulary: names, quantities, GPU requests, and the shapes of the CRDs and of the config file.

Everything else in Alnair speaks these words. Nothing in here may import another room, do I/O
(`config` and `crds` read and write the files they are named after), or look at a clock.
"""
