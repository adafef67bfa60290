"""The chart installs for real, and gives the operator under test its name, its rights and nothing more."""

from __future__ import annotations

import pytest

from alnair.sandbox.access import Access, CommandFailed
from harness.api import Api, at
from harness.operator import Release


def test_profiles_carry_the_names_of_the_test(release: Release) -> None:
    config = release.config.read_text()
    for name in (release.scheduler, release.cost_saving, release.high_performance):
        assert f"schedulerName: {name}\n" in config


async def test_the_token_is_the_charts_service_account(release: Release) -> None:
    async with Api.from_kubeconfig(release.kubeconfig) as operator:
        assert isinstance(await operator.items(at("pods")), list)
        assert isinstance(await operator.items(at("gpuallocations")), list)


@pytest.mark.parametrize("what", ["create pods", "delete pods", "list secrets"])
def test_what_the_chart_does_not_grant_may_not_be_done(cluster: Access, release: Release, what: str) -> None:
    """Asked and not tried: what operators try in vain fails the run (see `harness.rights`)."""
    with pytest.raises(CommandFailed, match=r"\nno$"):
        cluster.kubectl("auth", "can-i", *what.split(), kubeconfig=release.kubeconfig)
