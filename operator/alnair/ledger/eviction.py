"""Taking back the members of a gang that cannot become whole: through the eviction API, so disruption budgets hold.

What must never happen here: a pod is evicted that nothing would make anew, or another one of its name.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from alnair.kube import Client, Refused, Unanswered
from alnair.ledger.binding import is_gone
from alnair.ledger.records import Member, Record

log = logging.getLogger(__name__)

BUDGET_PAUSE = 5.0  # between tries to evict a pod whose disruption budget says no


def rolled_back(why: str, lone: list[str]) -> dict[str, Any]:
    """The record's condition. `lone`: members that stay because nothing would make them anew."""
    message = f"rolled back: {why}"
    if lone:
        message += f"; not evicted because nothing would recreate them: {', '.join(sorted(lone)[:10])}"
    return {
        "type": "RolledBack",
        "status": "False" if lone else "True",
        "reason": "PodsWithoutController" if lone else "GangIncomplete",
        "message": message[:1024],
    }


async def evict(client: Client, record: Record, member: Member) -> None:
    """Until it is accepted, or the member is gone."""
    namespace = record.owner.namespace
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": member.name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": member.uid}},
    }
    while not member.gone and member.uid in record.members:
        try:
            await client.create(f"/api/v1/namespaces/{namespace}/pods/{member.name}/eviction", body)
            return
        except (Refused, Unanswered) as error:
            log.info("evict %s/%s: %s", namespace, member.name, error)
            # A conflict may be about another UID, but also about a budget or a pod that others keep changing.
            over = isinstance(error, Refused) and error.status in (404, 409)
            if over and await is_gone(client, namespace, member):
                return  # the pod stream tells
            await asyncio.sleep(BUDGET_PAUSE)
