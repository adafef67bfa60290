"""Alnair: a second scheduler for Kubernetes that places gangs of GPU pods, whole or not at all.

Only the version stands here. Importing the package must never import one of its rooms: the command line
stays quick, and the sandbox stays usable without the operator's libraries.
"""

__version__ = "0.2.0"
