"""Volumes as scheduling sees them: claims, what they are bound to, and how many a node can attach."""

from __future__ import annotations


class Volumes:
    """The books of storage. Filled by the streams; read by the volume rules."""
