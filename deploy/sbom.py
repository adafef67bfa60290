"""What the image consists of, as CycloneDX 1.6 JSON: each Debian package and each Python distribution in it.

Read from what was unpacked, not from what was asked for. The same image gives the same bytes.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any
from urllib.parse import quote

SPACE = uuid.UUID("6d1c3b7e-6f0e-5a51-9a4e-3f3f3f0c5d11")


@dataclass(frozen=True, slots=True)
class DebianPackage:
    name: str
    version: str
    architecture: str
    sha256: str


def from_debian(package: DebianPackage, distribution: str) -> dict[str, Any]:
    """`distribution` is ID-VERSION_ID of its os-release, such as debian-12."""
    vendor = distribution.partition("-")[0]
    name, version = quote(package.name, safe=""), quote(package.version, safe="")
    purl = f"pkg:deb/{vendor}/{name}@{version}?arch={package.architecture}&distro={distribution}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package.name,
        "version": package.version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": package.sha256}],
    }


def from_python(folder: Path) -> list[dict[str, Any]]:
    """Every distribution that is installed in a folder of modules."""
    found = []
    for information in sorted(folder.glob("*.dist-info")):
        metadata = Distribution.at(information).metadata
        name = re.sub(r"[-_.]+", "-", metadata["Name"]).lower()
        purl = f"pkg:pypi/{name}@{quote(metadata['Version'], safe='')}"
        component: dict[str, Any] = {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": metadata["Version"],
            "purl": purl,
        }
        if "License-Expression" in metadata:
            component["licenses"] = [{"expression": metadata["License-Expression"]}]
        found.append(component)
    return found


def document(components: Sequence[dict[str, Any]], *, name: str, version: str, digest: str) -> str:
    """`digest` is that of the image's manifest, by which registries know it."""
    purl = f"pkg:oci/{name}@sha256%3A{digest}"
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(SPACE, digest)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "bom-ref": purl,
                "name": name,
                "version": version,
                "purl": purl,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
        },
        "components": sorted(components, key=lambda each: str(each["purl"])),
    }
    return json.dumps(body, indent=1) + "\n"
