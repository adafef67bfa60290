"""The fingerprint of pods is the one that publishers compute: vectors of the project podfingerprint, and of XXH64."""

from __future__ import annotations

import pytest

from alnair.state.fingerprint import fingerprint, pod_hash, xxh64

THREE = [("production", name) for name in ("jaeger-dpgjk", "nginx-rt684", "envoy-g9m22")]
TEN = [
    ("analytics", "controller-69dkj"),
    ("kube-public", "subscriber-tq6v7"),
    ("kube-public", "transformer-hfbng"),
    ("kube-public", "validator-c6pn5"),
    ("kube-system", "proxy-wszrd"),
    ("middleware", "processor-jkrl4"),
    ("network", "gateway-vsll5"),
    ("network", "importer-kzdfr"),
    ("network", "importer-q5vt9"),
    ("staging", "prometheus-bwgbn"),
]


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        pytest.param(THREE, "pfp0v001607b76a0e9d3aeb4", id="three pods"),
        pytest.param(TEN[::-1], "pfp0v001567144e4a561bb5a", id="ten pods, in any order"),
    ],
)
def test_a_set_of_pods_has_the_published_fingerprint(pods: list[tuple[str, str]], told: str) -> None:
    assert fingerprint(pod_hash(*each) for each in pods) == told


def test_the_hash_of_nothing_and_of_a_word() -> None:
    assert (xxh64(b""), xxh64(b"abc")) == (0xEF46DB3751D8E999, 0x44BC2CF5AD770999)
