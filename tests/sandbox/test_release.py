"""The chart installs for real, and gives the operator under test its name, its rights and nothing more."""

from __future__ import annotations

import pytest

from alnair.sandbox.access import Access, CommandFailed
from harness.api import Api, Refused, at
from harness.builders import pod
from harness.operator import Release


def test_profiles_carry_the_names_of_the_test(release: Release) -> None:
    config = release.config.read_text()
    for name in (release.scheduler, release.cost_saving, release.high_performance):
        assert f"schedulerName: {name}\n" in config


async def test_the_token_is_the_charts_service_account(cluster: Access, release: Release) -> None:
    async with Api.from_kubeconfig(release.kubeconfig) as operator:
        assert isinstance(await operator.items(at("pods")), list)
        assert isinstance(await operator.items(at("gpuallocations")), list)
        with pytest.raises(Refused, match="403"):
            await operator.create(pod("a").manifest(), namespace=release.namespace)
        with pytest.raises(Refused, match="403"):
            await operator.items(at("secrets", release.namespace))
    with pytest.raises(CommandFailed, match="cannot delete"):
        cluster.kubectl("delete", "pod", "any", kubeconfig=release.kubeconfig)
