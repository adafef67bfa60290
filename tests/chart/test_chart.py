"""The chart: it renders, refuses wrong values, grants the least, and its config is one that the operator reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import alnair
from alnair.api.config import DEFAULT, BadConfig, Config, parse_config
from alnair.api.crds import DEFINITIONS
from alnair.api.profiles import BASELINES
from alnair.scheduling.profile import build_all
from alnair.scheduling.registry import OURS

CHART = Path(__file__).parents[2] / "charts" / "alnair"
Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]
KINDS = ("podGroups", "nodeResourceTopologies", "gpuAllocations", "elasticHorovodJobs")
CHILDREN = (
    ("", "configmaps"),
    ("", "services"),
    ("apps", "statefulsets"),
    ("batch", "jobs"),
    ("scheduling.x-k8s.io", "podgroups"),
)
NO_CRDS = {"crds": dict.fromkeys(KINDS, False)}
PROFILE = {"schedulerName": "mine", "scorers": [{"name": "Spread", "weight": 3}], "picker": "worst-fit"}


def one(objects: list[Manifest], kind: str) -> Manifest:
    found = [each for each in objects if each["kind"] == kind]
    assert len(found) == 1, f"{len(found)} of kind {kind}"
    return found[0]


def operators_role(objects: list[Manifest]) -> Manifest:
    """The ClusterRole that is bound to the operator."""
    name = one(objects, "ClusterRoleBinding")["roleRef"]["name"]
    (found,) = (each for each in objects if (each["kind"], each["metadata"]["name"]) == ("ClusterRole", name))
    return found


def container(objects: list[Manifest]) -> Manifest:
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    assert len(pod["containers"]) == 1
    found: Manifest = pod["containers"][0]
    return found


def test_helm_lint_has_nothing_to_say(helm: Any) -> None:
    result = helm.run("lint", "--strict", str(CHART), "--kube-version", "1.36.3")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "[WARNING]" not in result.stdout
    assert "[ERROR]" not in result.stdout


def test_the_chart_carries_the_packages_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == alnair.__version__


def test_an_older_cluster_is_refused(helm: Any) -> None:
    result = helm.run("template", "a", str(CHART), "--kube-version", "1.33.9")
    assert result.returncode != 0
    assert ">=1.34.0-0" in result.stderr


def test_the_default_config_is_what_runs_without_a_file(render: Render) -> None:
    text = one(render(), "ConfigMap")["data"]["config.yaml"]
    assert parse_config(text, origin="chart") == DEFAULT


def test_the_profiles_of_the_values_are_the_config(render: Render) -> None:
    text = one(render({"profiles": [PROFILE]}), "ConfigMap")["data"]["config.yaml"]
    assert parse_config(text, origin="chart") == parse_config(json.dumps({"profiles": [PROFILE]}), origin="p")


@pytest.mark.parametrize(
    "change",
    [
        {"schedulerName": "Mine"},
        {"schedulerName": ""},
        {"schedulerName": "default-scheduler"},
        {"schedulerName": 3},
        {"scorers": []},
        {"scorers": [{"name": "binpack"}]},
        {"scorers": [{"name": "BinPack", "weight": 0}]},
        {"scorers": [{"name": "BinPack", "weight": 1001}]},
        {"scorers": [{"name": "BinPack", "wait": 1}]},
        {"picker": "first-fit"},
        {"filters": ["no good"]},
        {"filters": {"disable": ["NoSuchRule"]}},
        {"sort": "Loudest"},
        {"nodePicker": "Unqualified"},
        {"preBind": ["Unqualified"]},
        {"fallback": "No Name"},
        {"strategy": "binpack"},
    ],
    ids=str,
)
def test_a_profile_that_the_operator_would_refuse_is_refused_by_helm(
    helm: Any, values_file: Callable[[Manifest], str], change: Manifest
) -> None:
    values = {"profiles": [{**PROFILE, **change}]}
    result = helm.template("--values", values_file(values))
    assert result.returncode != 0
    assert "profiles.0" in result.stderr.replace("/", ".")
    with pytest.raises(BadConfig):
        build_all(parse_config(json.dumps(values), origin="values"))


@pytest.mark.parametrize(
    "levels",
    [
        [{"name": "rack"}],
        [{"name": "Rack", "label": "rack"}],
        [{"name": "rack", "label": "a/b/c"}],
        [{"name": "rack", "label": "-rack"}],
        [{"name": "rack", "label": "rack", "depth": 1}],
        [{"name": "rack", "label": "a"}, {"name": "rack", "label": "b"}],
        [{"name": "rack", "label": "a"}, {"name": "block", "label": "a"}],
    ],
    ids=str,
)
def test_a_level_that_the_operator_would_refuse_is_refused_by_helm(
    helm: Any, values_file: Callable[[Manifest], str], levels: list[Manifest]
) -> None:
    values = {"profiles": [PROFILE], "topology": {"levels": levels}}
    result = helm.template("--values", values_file(values))
    assert result.returncode != 0
    assert "topology.levels" in result.stderr.replace("/", ".")
    with pytest.raises(BadConfig):
        parse_config(json.dumps(values), origin="values")


def test_the_levels_of_the_values_are_the_config(render: Render) -> None:
    for levels in ([], [{"name": "pod", "label": "example.com/pod"}]):
        text = one(render({"topology": {"levels": levels}}), "ConfigMap")["data"]["config.yaml"]
        assert parse_config(text, origin="chart").topology.model_dump() == {"levels": levels}


@pytest.mark.parametrize(
    "readings",
    [{"freshSeconds": 0}, {"halfLifeSeconds": "soon"}, {"forgottenSeconds": 59}, {"period": 30}],
    ids=str,
)
def test_times_that_the_operator_would_refuse_are_refused_by_helm(
    helm: Any, values_file: Callable[[Manifest], str], readings: Manifest
) -> None:
    values = {"profiles": [PROFILE], "readings": readings}
    result = helm.template("--values", values_file(values))
    assert result.returncode != 0
    assert "readings" in result.stderr
    with pytest.raises(BadConfig):
        parse_config(json.dumps(values), origin="values")


def test_the_times_of_the_values_are_the_config(render: Render) -> None:
    text = one(render({"readings": {"freshSeconds": 2.5}}), "ConfigMap")["data"]["config.yaml"]
    read = parse_config(text, origin="chart").readings
    assert (read.fresh_seconds, read.half_life_seconds, read.forgotten_seconds) == (2.5, 60, 300)


def test_every_rule_that_there_is_may_be_named_and_the_schema_knows_no_other() -> None:
    definitions = json.loads((CHART / "values.schema.json").read_text())["definitions"]
    for point, word in (
        ("filters", "filter"),
        ("scorers", "scorer"),
        ("picker", "picker"),
        ("sort", "sorter"),
    ):
        assert definitions[f"{word}Name"]["anyOf"][0]["enum"] == OURS.names(point)


def test_rules_of_third_parties_may_be_named_at_every_point_with_options(render: Render) -> None:
    theirs = {"name": "acme.com/Rule", "options": {"depth": 3}}
    profile = {
        **PROFILE,
        "sort": theirs,
        "filters": {"enable": ["acme.com/Rule"], "disable": ["NodePorts"]},
        "scorers": [{**theirs, "weight": 2}],
        "nodePicker": "acme.com/Rule",
        "picker": theirs,
        "reserve": [theirs],
        "preBind": ["acme.com/Rule"],
        "postBind": [theirs],
        "fallback": "mine",
    }
    text = one(render({"profiles": [profile]}), "ConfigMap")["data"]["config.yaml"]
    assert parse_config(text, origin="chart") == parse_config(json.dumps({"profiles": [profile]}), origin="p")


def test_the_baselines_answer_when_they_are_switched_on(render: Render) -> None:
    objects = render({"baselines": True})
    config = parse_config(one(objects, "ConfigMap")["data"]["config.yaml"], origin="chart")
    assert config == Config(profiles=DEFAULT.profiles, baselines=True)
    policies = json.dumps([each for each in objects if "AdmissionPolicy" in each["kind"]])
    for profile in BASELINES:
        assert f"'{profile.scheduler_name}'" in policies


def test_a_profile_that_stands_twice_is_refused(helm: Any, values_file: Callable[[Manifest], str]) -> None:
    result = helm.template("--values", values_file({"profiles": [PROFILE, PROFILE]}))
    assert result.returncode != 0
    assert 'schedulerName "mine" is used twice' in result.stderr


@pytest.mark.parametrize(
    "values",
    [
        {"replica": 1},
        {"replicas": -1},
        {"replicas": "1"},
        {"leaseDurationSeconds": 2},
        {"leaseDurationSeconds": 7.5},
        {"podDisruptionBudget": {"maxUnavailable": 0}},
        {"podDisruptionBudget": {"minAvailable": 1}},
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname"}]},
        {"topologySpreadConstraints": {"maxSkew": 1}},
        {"profiles": []},
        {"profiles": "alnair"},
        {"crds": {"podgroups": False}},
        {"crds": {"podGroups": "no"}},
        {"image": {"tag": 1}},
        {"image": {"repository": ""}},
        {"image": {"pullPolicy": "Sometimes"}},
        {"resources": {"request": {}}},
        {"fullnameOverride": "Not_A_Name"},
        {"serviceAccount": {"name": "no good"}},
        {"podLabels": {"a": 1}},
    ],
    ids=str,
)
def test_wrong_values_are_refused_by_the_schema(
    helm: Any, values_file: Callable[[Manifest], str], values: Manifest
) -> None:
    result = helm.template("--values", values_file(values))
    assert result.returncode != 0
    assert "don't meet the specifications of the schema" in result.stderr


def test_every_value_is_known_to_the_schema() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert values.keys() == schema["properties"].keys() - {"global"}


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda each: str(each.plural))
def test_each_crd_has_a_switch_and_is_kept(render: Render, definition: Any) -> None:
    def crds(values: Manifest) -> dict[str, Manifest]:
        return {e["metadata"]["name"]: e for e in render(values) if e["kind"] == "CustomResourceDefinition"}

    name = f"{definition.plural}.{definition.group}"
    crd = crds({})[name]
    assert crd["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
    if not crd["metadata"]["annotations"]:
        del crd["metadata"]["annotations"]
    assert crd == definition.manifest()
    assert crds({"crds": {definition.switch: False}}).keys() == crds({}).keys() - {name}


def test_without_crds_none_is_rendered(render: Render) -> None:
    assert not [each for each in render(NO_CRDS) if each["kind"] == "CustomResourceDefinition"]


def rules(objects: list[Manifest]) -> list[Manifest]:
    return [rule for each in objects if each["kind"] in ("Role", "ClusterRole") for rule in each["rules"]]


def test_no_rule_has_a_wildcard(render: Render) -> None:
    for rule in rules(render()):
        assert not [word for words in rule.values() for word in words if "*" in word]


def granted(rule: Manifest) -> set[tuple[str, str, str]]:
    return {
        (group, kind, verb)
        for group in rule["apiGroups"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    }


def test_without_targets_nothing_is_scaled(render: Render) -> None:
    values = {"elastic": {"targets": []}, "elasticHorovodJobs": {"enabled": False}}
    role = operators_role(render(values))
    rights = set().union(*map(granted, role["rules"]))
    assert not [right for right in rights if right[1].endswith("/scale") or right == ("", "pods", "patch")]


def test_other_kinds_are_scaled_where_the_values_say_so(render: Render) -> None:
    targets = [{"apiGroup": "kubeflow.org", "resources": ["pytorchjobs", "mpijobs"]}]
    role = operators_role(render({"elastic": {"targets": targets}}))
    rights = set().union(*map(granted, role["rules"]))
    assert {("kubeflow.org", f"{kind}/scale", "patch") for kind in ("pytorchjobs", "mpijobs")} <= rights
    assert ("apps", "statefulsets/scale", "patch") not in rights


def test_the_cluster_role_is_exactly_this(render: Render) -> None:
    role = operators_role(render())
    follow = ("list", "watch")
    read = ("get", *follow)
    expected = {
        *(("", "nodes", verb) for verb in follow),
        *(("", "pods", verb) for verb in read),
        *(("", "namespaces", verb) for verb in follow),
        *(
            ("storage.k8s.io", kind, verb)
            for kind in (
                "storageclasses",
                "csinodes",
                "csidrivers",
                "csistoragecapacities",
                "volumeattachments",
            )
            for verb in follow
        ),
        *(
            ("", kind, verb)
            for kind in ("persistentvolumeclaims", "persistentvolumes")
            for verb in (*follow, "patch")
        ),
        *(("", "services", verb) for verb in follow),
        ("", "pods/binding", "create"),
        ("", "pods/status", "patch"),
        ("", "pods/eviction", "create"),
        *(("scheduling.x-k8s.io", "podgroups", verb) for verb in follow),
        ("scheduling.x-k8s.io", "podgroups/status", "patch"),
        *(
            ("topology.node.k8s.io", "noderesourcetopologies", verb)
            for verb in (*read, "create", "update", "delete")
        ),
        *(("ai.centaurus.io", "gpuallocations", verb) for verb in (*read, "create", "patch", "delete")),
        *(("ai.centaurus.io", "gpuallocations/status", verb) for verb in ("update", "patch")),
        ("events.k8s.io", "events", "create"),
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
        *(("apps", kind, "get") for kind in ("replicasets", "statefulsets")),
        ("batch", "jobs", "get"),
        *(
            ("apps", f"{kind}/scale", verb)
            for kind in ("statefulsets", "deployments")
            for verb in ("get", "patch")
        ),
        ("", "pods", "patch"),
        *(("ai.centauruscloud.io", "elastichorovodjobs", verb) for verb in (*read, "patch")),
        ("ai.centauruscloud.io", "elastichorovodjobs/status", "patch"),
        ("ai.centauruscloud.io", "elastichorovodjobs/finalizers", "update"),
        *((group, kind, verb) for group, kind in CHILDREN for verb in (*read, "create", "update", "delete")),
    }
    assert set().union(*map(granted, role["rules"])) == expected


def test_children_may_be_written_only_where_elastic_horovod_jobs_are_reconciled(render: Render) -> None:
    off = render({"elasticHorovodJobs": {"enabled": False}})
    rights = set().union(*map(granted, operators_role(off)["rules"]))
    assert not {(group, kind, "create") for group, kind in CHILDREN} & rights
    assert not [right for right in rights if right[0] == "ai.centauruscloud.io"]
    (container,) = one(off, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert "--no-horovod-jobs" in container["args"]
    (container,) = one(render(), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert "--no-horovod-jobs" not in container["args"]


def test_controllers_may_be_read_only_where_a_profile_asks_what_their_pods_used(render: Render) -> None:
    off = {"elasticHorovodJobs": {"enabled": False}}
    for scorers, asked in (
        ([{"name": "Spread"}], False),
        ([{"name": "Spread"}, {"name": "Allocated"}], True),
    ):
        role = operators_role(render({**off, "profiles": [{**PROFILE, "scorers": scorers}]}))
        assert (("batch", "jobs", "get") in set().union(*map(granted, role["rules"]))) is asked


def test_only_its_own_lease_may_be_changed(render: Render) -> None:
    objects = render(release="blue")
    lease = container(objects)["args"][container(objects)["args"].index("--lease-name") + 1]
    role = one(objects, "Role")
    for rule in role["rules"]:
        assert rule["resources"] == ["leases"]
        assert rule["verbs"] == ["create"] or rule["resourceNames"] == [lease]
    assert set().union(*({verb for _, _, verb in granted(rule)} for rule in role["rules"])) == {
        "get",
        "watch",
        "update",
        "create",
    }


def test_the_bindings_bind_the_deployments_account(render: Render) -> None:
    objects = render({"serviceAccount": {"name": "robot"}})
    account = one(objects, "ServiceAccount")
    assert account["metadata"]["name"] == "robot"
    assert account["automountServiceAccountToken"] is False
    assert one(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "robot"
    for kind, role in (("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")):
        binding = one(objects, kind)
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "robot", "namespace": "gpu"}]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (
            role,
            (operators_role(objects) if role == "ClusterRole" else one(objects, role))["metadata"]["name"],
        )


def test_the_pod_meets_the_restricted_standard(render: Render) -> None:
    objects = render()
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert all(set(volume) - {"name"} <= {"configMap", "emptyDir", "projected"} for volume in pod["volumes"])
    context = container(objects)["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_container_runs_the_operator_and_is_probed(render: Render) -> None:
    operator = container(render(release="blue", namespace="gpu"))
    assert operator["image"] == f"alnair:{alnair.__version__}"
    assert [*operator["command"], *operator["args"]] == [
        *("alnair", "run", "--config", "/etc/alnair/config.yaml"),
        *("--config-map", "blue-alnair"),
        *("--lease-namespace", "$(POD_NAMESPACE)", "--lease-name", "blue-alnair"),
        *("--lease-duration", "15"),
        *("--metrics-port", "9090", "--liveness-port", "8080", "--host", "0.0.0.0"),
    ]
    ports = {port["name"]: port["containerPort"] for port in operator["ports"]}
    live, ready = operator["livenessProbe"]["httpGet"], operator["readinessProbe"]["httpGet"]
    assert (live["path"], ports[live["port"]]) == ("/healthz", 8080)
    assert (ready["path"], ports[ready["port"]]) == ("/readyz", 9090)
    assert operator["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "memory" in operator["resources"]["limits"]


def test_a_changed_profile_does_not_restart_the_operator_which_reads_it_again(render: Render) -> None:
    before, after = (one(render(values), "Deployment") for values in ({}, {"profiles": [PROFILE]}))
    assert before == after


def test_the_values_reach_the_pod(render: Render) -> None:
    values = {
        "replicas": 0,
        "image": {"repository": "registry.example/alnair", "tag": "dev", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "pull"}],
        "priorityClassName": "",
        "podLabels": {"team": "ml", "app.kubernetes.io/name": "not-this"},
        "podAnnotations": {"note": "x"},
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    }
    deployment = one(render(values), "Deployment")
    template = deployment["spec"]["template"]
    pod = template["spec"]
    assert deployment["spec"]["replicas"] == 0
    assert pod["containers"][0]["image"] == "registry.example/alnair:dev"
    assert pod["containers"][0]["imagePullPolicy"] == "Always"
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert "priorityClassName" not in pod
    assert template["metadata"]["labels"]["team"] == "ml"
    assert template["metadata"]["annotations"]["note"] == "x"
    assert pod["nodeSelector"] == {"pool": "system"}
    assert pod["tolerations"] == values["tolerations"]
    assert pod["affinity"] == {"nodeAffinity": {}}
    assert deployment["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_by_default_the_operator_is_critical(render: Render) -> None:
    pod = one(render(), "Deployment")["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "system-cluster-critical"


def test_the_service_reaches_the_metrics(render: Render) -> None:
    objects = render()
    service, template = one(objects, "Service"), one(objects, "Deployment")["spec"]["template"]
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert service["spec"]["ports"][0]["targetPort"] in {port["name"] for port in container(objects)["ports"]}


def test_two_releases_share_no_object(render: Render) -> None:
    def identities(release: str, namespace: str) -> set[tuple[str, str, str]]:
        objects = render(NO_CRDS, release=release, namespace=namespace)
        return {(e["kind"], e["metadata"].get("namespace", ""), e["metadata"]["name"]) for e in objects}

    releases = [
        ("alnair", "one"),
        ("alnair", "two"),
        ("a-b", "c"),
        ("a", "b-c"),
        ("b-alnair", "a"),
        ("alnair", "a-b"),
    ]
    found = [identities(*each) for each in releases]
    assert len(set().union(*found)) == sum(map(len, found))


def test_every_object_is_labelled_and_namespaced(render: Render) -> None:
    for each in render(NO_CRDS, namespace="gpu"):
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == "alnair"
        if not (each["kind"].startswith("Cluster") or "AdmissionPolicy" in each["kind"]):
            assert each["metadata"]["namespace"] == "gpu"


@pytest.mark.parametrize(
    ("release", "values", "expected"),
    [
        ("alnair", {}, "alnair"),
        ("blue", {}, "blue-alnair"),
        ("my-alnair-x", {}, "my-alnair-x"),
        ("blue", {"nameOverride": "gpu"}, "blue-gpu"),
        ("blue", {"fullnameOverride": "red"}, "red"),
        ("r" * 53, {}, "r" * 53),
    ],
)
def test_names_follow_the_release(render: Render, release: str, values: Manifest, expected: str) -> None:
    assert one(render(values, release=release), "Deployment")["metadata"]["name"] == expected
