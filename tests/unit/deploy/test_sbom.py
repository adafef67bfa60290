"""The SBOM names what is there by package URLs, and is the same for the same image."""

from __future__ import annotations

import json
from pathlib import Path

from deploy import sbom


def test_debian_and_python_packages_are_named_by_their_urls(tmp_path: Path) -> None:
    information = tmp_path / "Zope_Thing-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: Zope.Thing\nVersion: 1.0\nLicense-Expression: MIT\n"
    )
    package = sbom.DebianPackage("libstdc++6", "1:12.2+deb12u1", "amd64", "ab" * 32)
    parts = [sbom.from_debian(package, "debian-12"), *sbom.from_python(tmp_path)]
    text = sbom.document(parts, name="alnair", version="1", digest="cd" * 32)
    assert text == sbom.document(list(reversed(parts)), name="alnair", version="1", digest="cd" * 32)
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert [each["purl"] for each in bill["components"]] == [
        "pkg:deb/debian/libstdc%2B%2B6@1%3A12.2%2Bdeb12u1?arch=amd64&distro=debian-12",
        "pkg:pypi/zope-thing@1.0",
    ]
    assert bill["components"][1]["licenses"] == [{"expression": "MIT"}]
    assert bill["metadata"]["component"]["hashes"][0]["content"] == "cd" * 32
