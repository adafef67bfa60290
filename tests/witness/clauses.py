"""What the checker promises to find, clause by clause of the design's invariants, and the kinds of finding that it is.

A test marked `breaks(clause)` tells a history that breaks that clause, one marked `spares(clause)` one that nearly
does. `test_clauses` demands three and one of these for each clause, and `conftest` that the checker found the former
out, and the latter not.
"""

from __future__ import annotations

from typing import Final

from witness.findings import HALF_GANG, LEAK, MISMATCH, NOISE, OVER_ALLOCATION

CLAUSES: Final[dict[str, tuple[str, ...]]] = {
    "1: memory": (OVER_ALLOCATION,),
    "1: compute": (OVER_ALLOCATION,),
    "1: slots": (OVER_ALLOCATION,),
    "1: a whole card has one holder": (OVER_ALLOCATION,),
    "1: the card is there and healthy": (OVER_ALLOCATION,),
    "1: cards by number": (OVER_ALLOCATION,),
    "2: in a record": (MISMATCH,),
    "2: recorded soon, if a device plugin picks": (MISMATCH,),
    "2: in one record only": (MISMATCH,),
    "2: same UID": (MISMATCH,),
    "2: same node": (MISMATCH,),
    "2: same cards": (MISMATCH,),
    "2: committed at an earlier revision": (MISMATCH,),
    "2: and so it stays": (MISMATCH,),
    "2: given what it asked for": (MISMATCH,),
    "2: told its cards": (MISMATCH,),
    "3: no member before its gang's commit": (MISMATCH,),
    "3: enough members at the commit": (HALF_GANG,),
    "3: minMember that is edited": (HALF_GANG,),
    "3: whole or nothing at rest": (HALF_GANG,),
    "4: released within the release time": (LEAK,),
    "4: released at rest": (LEAK,),
    "4: no record that nobody is there for": (LEAK,),
    "4: kept while its pod is bound": (MISMATCH,),
    "4: kept while its pod terminates": (MISMATCH, OVER_ALLOCATION),
    "4: kept while its pod is out of reach": (MISMATCH, OVER_ALLOCATION),
    "5: bound once": (MISMATCH,),
    "5: the epoch never goes back": (MISMATCH,),
    "6: silence": (NOISE,),
}
