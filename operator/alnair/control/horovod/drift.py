"""Whether what stands there is ours, and says what it should; and what to write if it does not.

An object of the apiserver has more in it than was sent: defaults, other controllers' fields. So what we want must be in
it, and what else is in it is not ours to judge, except in maps that only we fill.
"""

from __future__ import annotations

from typing import Any, Final

from alnair.api import names
from alnair.api.quantity import BadQuantity, nano
from alnair.control.horovod.job import Identity, Manifest

# Maps that nobody fills up with defaults: one more entry in them is somebody's edit.
EXACT: Final = frozenset({"data", "elastic", "matchLabels", "nodeSelector", "selector"})


def belongs(job: Identity, there: Manifest) -> bool:
    """Made by us for this very job. One whose owner was edited away is still known by its label."""
    meta = there["metadata"]
    owner = next((each for each in meta.get("ownerReferences") or () if each.get("controller")), None)
    if owner is None:
        return bool((meta.get("labels") or {}).get(names.HOROVOD_JOB_UID) == job.uid)
    return bool(owner.get("uid") == job.uid)


def says(there: Manifest, wanted: Manifest) -> bool:
    """Whether an object of the apiserver says what is wanted, but for its kind: items of a list do not say that."""
    return all(
        _same(there.get(field), value, field)
        for field, value in wanted.items()
        if field not in ("apiVersion", "kind")
    )


def amended(there: Manifest, wanted: Manifest) -> Manifest:
    """What stands there, as it is wanted: for a PUT that names the version it was read at.

    Fields of the spec that we say are replaced whole, so that what is no longer said goes too; those that we do not say
    (the StatefulSet's replicas!) stay what they are. Labels, annotations and owners of others are kept.
    """
    meta, ours = dict(there["metadata"]), wanted["metadata"]
    meta.pop("managedFields", None)
    for field in ("labels", "annotations"):
        if field in ours:
            meta[field] = {**(meta.get(field) or {}), **ours[field]}
    others = [each for each in meta.get("ownerReferences") or () if not each.get("controller")]
    meta["ownerReferences"] = [*others, *ours["ownerReferences"]]
    result = {**there, **wanted, "metadata": meta}
    if "spec" in wanted:
        result["spec"] = {**(there.get("spec") or {}), **wanted["spec"]}
    result.pop("status", None)
    return result


def _same(there: Any, wanted: Any, field: str) -> bool:
    if isinstance(wanted, dict):
        if not isinstance(there, dict):
            return there is None and not wanted
        if field in EXACT and there.keys() != wanted.keys():
            return False
        return all(_same(there.get(key), value, key) for key, value in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(there, list):
            return there is None and not wanted
        if field == "ownerReferences":  # others may own it too
            return all(any(_same(each, owner, "") for each in there) for owner in wanted)
        return len(there) == len(wanted) and all(map(_same, there, wanted, [""] * len(wanted)))
    return bool(there == wanted) or (there is None and not wanted) or _equal_amounts(there, wanted)


def _equal_amounts(there: Any, wanted: Any) -> bool:
    """The apiserver writes `1024Mi` as `1Gi`, and the number 1 as a string."""
    if not isinstance(there, str) or not isinstance(wanted, str | int) or isinstance(wanted, bool):
        return False
    try:
        return nano(there, field="") == nano(wanted, field="")
    except BadQuantity:
        return False
