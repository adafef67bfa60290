"""Why nothing was decided."""

from __future__ import annotations


class CommitRefused(Exception):
    """The apiserver does not accept the record (quota, a namespace on its way out, too large, its name taken).
    Nothing was decided."""


class RecordMoved(Exception):
    """The record went away, or is being rolled back, while the plan waited for it. Plan again; nothing was decided."""


class TooLarge(ValueError):
    """A gang whose record would not fit into one object of etcd."""
