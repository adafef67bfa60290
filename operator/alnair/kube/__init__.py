"""The wire: how Alnair reaches the apiserver.

Connection settings, one pooled HTTP session that speaks raw JSON, and the list+watch stream. Nothing here knows
what a gang or a card is, and nothing here decides whether a failed call may be repeated: that depends on what the
call meant, which only the caller knows.
"""

from alnair.kube.client import Client, Refused, Unanswered
from alnair.kube.connection import Connection, connect
from alnair.kube.stream import Stream

__all__ = ["Client", "Connection", "Refused", "Stream", "Unanswered", "connect"]
