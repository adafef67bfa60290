"""The operator's own pod: admitted where nothing but the restricted standard is, with a token of its own lifetime."""

from __future__ import annotations

from harness.api import Api, at
from harness.operator import Release
from harness.tenants import refusal


async def test_the_operators_pod_is_admitted_under_the_restricted_standard(
    api: Api, namespace: str, release: Release
) -> None:
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    await api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": enforced}})
    template = (await api.get(at("deployments", namespace, "alnair")))["spec"]["template"]
    one = {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": "operator"}}
    dry = f"{at('pods', namespace)}?dryRun=All"

    made = await api.call("POST", dry, {**one, "spec": template["spec"]})
    (container,) = made["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    # One token, which ends by itself: the kubelet's own would be accepted for a year.
    sources = [
        each for volume in made["spec"]["volumes"] for each in volume.get("projected", {}).get("sources", [])
    ]
    assert [
        each["serviceAccountToken"]["expirationSeconds"] for each in sources if "serviceAccountToken" in each
    ] == [3600]

    loose = {**template["spec"], "securityContext": {}}
    loose["containers"] = [{**loose["containers"][0], "securityContext": {}}]
    assert 'violates PodSecurity "restricted' in await refusal(api.call("POST", dry, {**one, "spec": loose}))
