"""The old kinds of disk, as the CSI drivers that have taken them over know them.

Kubernetes has no code of its own for these disks any more: a volume of an old kind is served by a CSI driver, which
counts it against its own attach limit under a name of its own, and which knows zones by a label of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from alnair.state import wire
from alnair.state.selectors import Labels, NodeTerm, Requirement
from alnair.state.shapes import Disk

GCE, AWS, AZURE, CINDER, PORTWORX = "gce-pd", "aws-ebs", "azure-disk", "cinder", "portworx-volume"

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
BETWEEN_ZONES = "__"  # in the value of a volume's zone label

_UNSPECIFIED = "UNSPECIFIED"
_AWS_VOLUME = re.compile(r"vol-[^/]*")


@dataclass(frozen=True, slots=True)
class Successor:
    driver: str
    zone_label: str = ""  # empty: the driver has no zones of its own


SUCCESSORS = {
    GCE: Successor("pd.csi.storage.gke.io", "topology.gke.io/zone"),
    AWS: Successor("ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    AZURE: Successor("disk.csi.azure.com"),
    CINDER: Successor("cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
    PORTWORX: Successor("pxd.portworx.com"),
}

# Provisioners of classes that were written for the old kinds. Those without a driver are not counted any more.
PROVISIONERS: dict[str, str | None] = {
    **{f"kubernetes.io/{kind}": each.driver for kind, each in SUCCESSORS.items()},
    "kubernetes.io/azure-file": None,
    "kubernetes.io/vsphere-volume": None,
}


def disk_of(source: wire.InTreeDisks) -> Disk | None:
    """The disk of an old kind that this names, if it names one."""
    if (gce := source.gce_persistent_disk) is not None:
        return Disk(GCE, (gce.pd_name,), gce.read_only)
    if (aws := source.aws_elastic_block_store) is not None:
        return Disk(AWS, (aws.volume_id,), aws.read_only)
    if (azure := source.azure_disk) is not None:
        return Disk(AZURE, (azure.disk_uri, "" if azure.kind is None else azure.kind.lower()))
    if source.cinder is not None:
        return Disk(CINDER, (source.cinder.volume_id,))
    if source.portworx_volume is not None:
        return Disk(PORTWORX, (source.portworx_volume.volume_id,))
    return None


def handle_of(disk: Disk, labels: Labels | None = None) -> str:
    """The driver's name for the disk, empty if it has none; `labels` are those of the volume, if it is in one."""
    match disk.kind:
        case "gce-pd":
            return _gce_handle(disk.id[0], labels or {})
        case "aws-ebs":
            return _aws_handle(disk.id[0])
        case "azure-disk":
            return disk.id[0] if disk.id[1] in ("", "managed") else ""
        case "cinder" | "portworx-volume":
            return disk.id[0]
    return ""


def _gce_handle(name: str, labels: Labels) -> str:
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE) or "").split(BETWEEN_ZONES)
    if len(zones) == 1:
        return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{name}"
    regions = {"-".join(zone.split("-")[:2]) for zone in zones if zone.count("-") == 2}
    if len(regions) != 1 or any(zone.count("-") != 2 for zone in zones):
        return ""
    return f"projects/{_UNSPECIFIED}/regions/{regions.pop()}/disks/{name}"


def _aws_handle(name: str) -> str:
    if not name.startswith("aws://"):
        return name
    try:
        found = urlsplit(name).path.strip("/")
    except ValueError:
        return ""
    return found if _AWS_VOLUME.fullmatch(found) else ""


def translated(terms: tuple[NodeTerm, ...] | None, kind: str, labels: Labels) -> tuple[NodeTerm, ...] | None:
    """A volume's node affinity where its driver speaks: by the driver's own zone label."""
    own = SUCCESSORS[kind].zone_label
    if not own:
        return terms
    used = {line.key for term in terms or () for line in term.labels}
    beta = ZONE not in used and (BETA_ZONE in used or (ZONE not in labels and BETA_ZONE in labels))
    zone, renamed = (BETA_ZONE, {BETA_REGION: REGION}) if beta else (ZONE, {})
    values = {
        value for term in terms or () for line in term.labels if line.key == zone for value in line.values
    }
    if values:
        renamed = {**renamed, zone: own}
    after = tuple(
        replace(
            term, labels=tuple(replace(line, key=renamed.get(line.key, line.key)) for line in term.labels)
        )
        for term in terms or ()
    )
    if not values and zone in labels:
        zones = sorted({each.strip() for each in labels[zone].split(BETWEEN_ZONES) if each.strip()})
        if zones:
            line = Requirement(own, "In", tuple(zones))
            return tuple(replace(term, labels=(*term.labels, line)) for term in after or (NodeTerm(),))
    return after if terms is not None else None
