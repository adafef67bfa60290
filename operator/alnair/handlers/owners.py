"""Controllers of pods, asked for what their pods used at most when they ran before (see api/peaks).

Annotations of a pod's template are on the pod itself; those of its ReplicaSet, StatefulSet or Job are not. Watching
three more kinds in whole, for three annotations on a few of them, would cost more than everything else of theirs is
worth, so a controller is read when the first pod of it comes to a profile that cares, and its word is kept for a while.
The pod waits for the answer, for a second at most: it is only a wish, and no answer is an answer too.

What must never happen here: a pod that waits for ever, or twice as long because somebody else's controller is slow.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from alnair.api.peaks import Peak, peak_in
from alnair.kube import Client, Refused, Unanswered
from alnair.kube.clock import Clock
from alnair.state import wire

log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 1.0
KEPT_SECONDS: Final = 300.0
MOST_KEPT: Final = 10_000
LONGEST_UID: Final = 64  # in a pod it is a tenant's word; the apiserver makes 36 characters
PLURALS: Final = {
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("batch/v1", "Job"): "jobs",
}


def controller_of(meta: wire.Metadata) -> wire.OwnerReference | None:
    """The pod's controller, if it is of a kind that is asked."""
    owner = next((each for each in meta.owner_references if each.controller), None)
    if owner is None or (owner.api_version, owner.kind) not in PLURALS:
        return None
    return owner if len(owner.uid) <= LONGEST_UID else None


class Owners:
    """`on_answer` hears the UID of each controller that has answered, or will not."""

    def __init__(
        self, client: Client, *, clock: Clock, on_answer: Callable[[str], None] = lambda uid: None
    ) -> None:
        self._client = client
        self._clock = clock
        self.on_answer = on_answer
        self._known: OrderedDict[str, tuple[float, Peak | None]] = OrderedDict()  # UID -> when, what
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._refused = False

    def peak(self, uid: str) -> Peak | None:
        return self._known[uid][1] if uid in self._known else None

    def ask(self, owner: wire.OwnerReference, namespace: str) -> bool:
        """True: the answer is to come. False: it is known."""
        if owner.uid in self._asking:
            return True
        known = self._known.get(owner.uid)
        if known is not None and self._clock.now() - known[0] < KEPT_SECONDS:
            return False
        plural = PLURALS[owner.api_version, owner.kind]
        path = (
            f"/apis/{owner.api_version}/namespaces/{quote(namespace)}/{plural}/{quote(owner.name, safe='')}"
        )
        self._asking[owner.uid] = asyncio.create_task(self._ask(path, owner.uid), name=f"ask {path}")
        return True

    async def _ask(self, path: str, uid: str) -> None:
        peak: Peak | None = None
        try:
            meta = (await self._client.get(path, seconds=ANSWER_SECONDS))["metadata"]
            if meta.get("uid") == uid:  # or it is a successor of the same name
                peak = peak_in(meta.get("annotations") or {})
        except Refused as refused:
            if refused.status == 403 and not self._refused:
                self._refused = True
                log.warning(
                    "controllers of pods may not be read, so nobody tells what their pods used: %s", refused
                )
        except Unanswered as error:
            log.info("%s: not answered: %s", path, error)
        finally:
            self._known[uid] = (self._clock.now(), peak)
            self._known.move_to_end(uid)
            if len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
            del self._asking[uid]
            self.on_answer(uid)
