"""The page and the example say what the job's model takes."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from alnair.control.horovod import children
from alnair.control.horovod.job import Job, Manifest, read

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "elastic-horovod.md").read_text("utf-8")
EXAMPLE = yaml.safe_load((ROOT / "examples" / "horovod" / "train.yaml").read_text("utf-8"))


def placed(manifest: Manifest) -> Job:
    job = read({**manifest, "metadata": {**manifest["metadata"], "namespace": "ns", "uid": "u"}})
    assert isinstance(job, Job), job
    return job


def test_the_page_shows_the_example_and_the_example_can_be_read() -> None:
    first, *_ = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    assert yaml.safe_load(first) == EXAMPLE
    assert placed(EXAMPLE).spec.workers_spec.max_replicas == 5


def test_the_overlay_of_the_page_does_what_it_says() -> None:
    overlay = yaml.safe_load(re.findall(r"```yaml\n(  workersSpec.*?)```", PAGE, flags=re.DOTALL)[0])
    workers = {**EXAMPLE["spec"]["workersSpec"], **overlay["workersSpec"]}
    job = placed({**EXAMPLE, "spec": {**EXAMPLE["spec"], "workersSpec": workers}})
    spec = children.workers(job, replicas=2)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert {"/corpus", "/dev/shm", "/etc/secrets"} == {
        mount["mountPath"] for mount in container["volumeMounts"]
    }
    assert container["image"] == EXAMPLE["spec"]["workersSpec"]["image"]
    assert {"corpus", "shared-memory", "ssh-keys"} == {volume["name"] for volume in spec["volumes"]}


def test_every_field_and_every_child_is_on_the_page() -> None:
    spec = placed(EXAMPLE).spec
    for part, model in (("launcherSpec", spec.launcher_spec), ("workersSpec", spec.workers_spec)):
        for field in type(model).model_fields.values():
            assert f"`{field.alias}`" in PAGE or f"`{part}.{field.alias}`" in PAGE, field.alias
    for child in ("workers", "discovery", "launcher"):
        assert f"`<job>-{child}`" in PAGE
