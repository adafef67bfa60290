"""The CRDs: the files are what the models say, structural, bounded everywhere, and a superset of upstream's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from alnair.api import crds
from alnair.api.crds import DEFINITIONS, render_chart_crds, render_crds, write_crds

ROOT = Path(__file__).parents[3]
FORBIDDEN = {"$ref", "$defs", "title", "default", "const", "allOf", "oneOf", "not", "nullable", "definitions"}


def schemas(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside this one, with its path."""
    yield path, schema
    for name, sub in schema.get("properties", {}).items():
        yield from schemas(sub, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from schemas(schema[key], f"{path}[]")


ALL = [
    pytest.param(path, schema, id=path)
    for each in DEFINITIONS
    for path, schema in schemas(
        each.manifest()["spec"]["versions"][0]["schema"]["openAPIV3Schema"], each.kind
    )
]


@pytest.mark.parametrize(
    ("folder", "files"), [("crds", render_crds()), ("charts/alnair/templates/crds", render_chart_crds())]
)
def test_the_files_are_what_the_models_say(folder: str, files: dict[str, str]) -> None:
    found = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / folder).iterdir()}
    assert found == files, f"{folder}/ is out of step with the models: run `make crds`"


def test_writing_goes_to_the_folder_and_to_the_chart_beside_it(tmp_path: Path) -> None:
    assert len(write_crds(tmp_path / "crds")) == 4
    (tmp_path / "charts" / "alnair").mkdir(parents=True)
    (tmp_path / "charts" / "alnair" / "Chart.yaml").touch()
    written = write_crds(tmp_path / "crds")
    assert len(written) == 8
    assert all(path.is_file() for path in written)


def test_a_template_escapes_what_helm_would_read(monkeypatch: pytest.MonkeyPatch) -> None:
    column = replace(crds.AGE, description="a {{ trap }}")
    monkeypatch.setattr(crds, "DEFINITIONS", (replace(DEFINITIONS[0], columns=(column,)),))
    (text,) = render_chart_crds().values()
    assert 'a {{ "{{" }} trap }}' in text
    (plain,) = render_crds().values()
    assert "a {{ trap }}" in plain


@pytest.mark.parametrize(("path", "schema"), ALL)
def test_every_schema_is_structural_and_bounded(path: str, schema: dict[str, Any]) -> None:
    assert not FORBIDDEN & schema.keys()
    if schema.get("x-kubernetes-int-or-string"):
        assert "type" not in schema
        assert schema["anyOf"] == [{"type": "integer"}, {"type": "string"}]
        assert "pattern" in schema
        return
    assert "anyOf" not in schema
    kind = schema["type"]
    name = path.rpartition(".")[2]
    if kind == "string" and name not in ("apiVersion", "kind"):
        assert "enum" in schema or "maxLength" in schema
    if kind == "array":
        assert schema["maxItems"] <= 8192
    if kind == "integer":
        assert schema["format"] in ("int32", "int64")
    if "additionalProperties" in schema:
        assert "maxProperties" in schema


@pytest.mark.parametrize(("path", "schema"), [each for each in ALL if "." in str(each.id)])
def test_every_field_is_described(path: str, schema: dict[str, Any]) -> None:
    if path.rpartition(".")[2] not in ("apiVersion", "kind", "metadata") and not path.endswith("[]"):
        assert schema["description"]


@pytest.mark.parametrize(("path", "schema"), ALL)
def test_keys_of_map_lists_are_required(path: str, schema: dict[str, Any]) -> None:
    if schema.get("x-kubernetes-list-type") == "map":
        assert set(schema["x-kubernetes-list-map-keys"]) <= set(schema["items"]["required"])


@pytest.mark.parametrize(("path", "schema"), ALL)
def test_rules_have_messages_and_stand_outside_lists(path: str, schema: dict[str, Any]) -> None:
    for rule in schema.get("x-kubernetes-validations", ()):
        assert len(rule["message"]) > 20
        assert "[]" not in path, "the apiserver multiplies a rule's cost by the bounds of the lists around it"


def spec_of(plural: str) -> dict[str, Any]:
    manifest = next(each.manifest() for each in DEFINITIONS if each.plural == plural)
    spec: dict[str, Any] = manifest["spec"]
    return spec


def test_a_pod_group_has_all_of_upstreams_fields_and_requires_none() -> None:
    schema = spec_of("podgroups")["versions"][0]["schema"]["openAPIV3Schema"]
    assert "required" not in schema
    spec, status = schema["properties"]["spec"], schema["properties"]["status"]
    assert "required" not in spec
    assert "required" not in status
    upstream = {"minMember", "minResources", "scheduleTimeoutSeconds"}
    ours = {"topology", "elastic", "onMemberFailure", "keepPlaceSeconds", "restartLimit"}
    assert spec["properties"].keys() == upstream | ours
    assert spec["properties"]["minMember"]["minimum"] == 0
    upstream = {"phase", "occupiedBy", "running", "succeeded", "failed", "scheduleStartTime", "scheduled"}
    assert upstream <= status["properties"].keys()
    assert {"", "PreScheduling"} <= set(status["properties"]["phase"]["enum"])


def test_a_record_guards_its_spec_its_epoch_and_its_pods() -> None:
    properties = spec_of("gpuallocations")["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    (immutable,) = properties["spec"]["x-kubernetes-validations"]
    assert immutable["rule"] == "self == oldSelf"
    guarded = " ".join(rule["rule"] for rule in properties["status"]["x-kubernetes-validations"])
    assert "self.epoch >= oldSelf.epoch" in guarded
    assert "self.phase != 'Pending'" in guarded


def test_the_lists_of_a_record_are_written_whole() -> None:
    schema = spec_of("gpuallocations")["versions"][0]["schema"]["openAPIV3Schema"]
    lists = {
        path: sub["x-kubernetes-list-type"] for path, sub in schemas(schema, "") if sub.get("type") == "array"
    }
    assert lists == {
        ".status.conditions": "map",
        ".status.pods": "atomic",
        ".status.pods[].containers": "atomic",
        ".status.pods[].containers[].slices": "atomic",
        ".status.reserved": "atomic",
        ".status.reserved[].containers": "atomic",
        ".status.reserved[].containers[].slices": "atomic",
    }


def test_the_topology_is_cluster_scoped_without_a_status() -> None:
    spec = spec_of("noderesourcetopologies")
    assert spec["scope"] == "Cluster"
    assert "subresources" not in spec["versions"][0]
    assert spec["versions"][0]["schema"]["openAPIV3Schema"]["required"] == ["zones"]
    manifest = yaml.safe_load(render_crds()["topology.node.k8s.io_noderesourcetopologies.yaml"])
    assert "api-approved.kubernetes.io" in manifest["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("plural", "short", "narrow", "wide"),
    [
        (
            "podgroups",
            ["pg", "pgs"],
            ["Phase", "Scheduled", "Min", "Members", "Wants", "Max", "Age"],
            ["Running", "Failed", "Reason", "Why-Not-More"],
        ),
        (
            "noderesourcetopologies",
            ["node-res-topo"],
            ["Cards", "Memory", "NUMA", "Links", "Unhealthy", "Source", "Policy", "Age"],
            [],
        ),
        (
            "gpuallocations",
            ["gpualloc", "ga"],
            ["Phase", "Owner", "Scheduled", "Min", "GPUs", "Memory(MiB)", "Nodes", "Age"],
            ["Kind", "Scheduler", "Epoch", "Cards"],
        ),
        (
            "elastichorovodjobs",
            ["ehj"],
            ["Workers", "Launcher", "Age"],
            ["Has", "Wants", "Min", "Max", "Why-Not-More", "State"],
        ),
    ],
)
def test_kubectl_prints_what_people_look_for(
    plural: str, short: list[str], narrow: list[str], wide: list[str]
) -> None:
    spec = spec_of(plural)
    columns = spec["versions"][0]["additionalPrinterColumns"]
    assert spec["names"]["shortNames"] == short
    assert spec["names"]["categories"] == ["alnair"]
    assert [column["name"] for column in columns if not column.get("priority")] == narrow
    assert [column["name"] for column in columns if column.get("priority")] == wide


def test_every_plain_column_reads_a_field_that_exists() -> None:
    for each in DEFINITIONS:
        schema = spec_of(each.plural)["versions"][0]["schema"]["openAPIV3Schema"]
        for column in each.columns:
            if "[" in column.path or column.path.startswith(".metadata"):
                continue
            here = schema
            for part in column.path.split(".")[1:]:
                here = here["properties"][part]
            assert here["type"] == column.type, column.name
