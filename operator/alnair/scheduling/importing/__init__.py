"""What people configured kube-scheduler with, as profiles of Alnair's: `alnair profile import`.

Two kinds of files are understood: Policy (kube-scheduler 1.0 to 1.22) and KubeSchedulerConfiguration (since 1.12),
alone or in a ConfigMap. Nothing of a file is dropped in silence: what there is no rule for, and what a rule does in
another way, is a Remark. What kube-scheduler itself would refuse is refused (Unreadable).
"""

from __future__ import annotations

from alnair.scheduling.importing.assembly import Imported, Remark
from alnair.scheduling.importing.configuration import from_configuration
from alnair.scheduling.importing.policy import from_policy
from alnair.scheduling.importing.reading import Unreadable, read
from alnair.scheduling.importing.writing import written

__all__ = ["Imported", "Remark", "Unreadable", "import_profiles", "written"]


def import_profiles(
    content: bytes | str, *, origin: str, scheduler_name: str | None = None, exact: bool = False
) -> list[Imported]:
    """The profiles that the file stands for; `origin` is what messages call it. Raises Unreadable.

    `exact`: with no filters but those that kube-scheduler would have run by this file.
    """
    tree = read(content, origin=origin)
    if tree["kind"] == "Policy":
        return [from_policy(tree, origin=origin, scheduler_name=scheduler_name, exact=exact)]
    return from_configuration(tree, origin=origin, scheduler_name=scheduler_name, exact=exact)
