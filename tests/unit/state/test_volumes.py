"""The books of storage against a plain recount: who would get which volume where, and how many more go onto a node.

The other side is written from kube-scheduler's own description, node by node and volume by volume, on manifests.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from alnair.state import shelves
from harness.builders import line, pod
from harness.storage import DRIVER, attachment, claim, csi_node, storage_class, volume
from unit.builders import Cluster, let_through
from unit.storage import gone, host, stored

Manifest = dict[str, Any]
ZONES = ("x", "y", "z")


# -- which volume, told plainly ----------------------------------------------------------------------------------


def gib(text: str) -> int:
    return int(text.removesuffix("Gi"))


def reaches(there: Manifest, labels: dict[str, str]) -> bool:
    affinity = there["spec"].get("nodeAffinity")
    if affinity is None:
        return True
    return any(
        all(labels.get(each["key"]) in each["values"] for each in term["matchExpressions"])
        for term in affinity["required"]["nodeSelectorTerms"]
    )


def fits(there: Manifest, asking: Manifest) -> bool:
    wanted = asking["spec"].get("selector", {}).get("matchLabels", {})
    return (
        gib(there["spec"]["capacity"]["storage"]) >= gib(asking["spec"]["resources"]["requests"]["storage"])
        and there["status"]["phase"] == "Available"
        and wanted.items() <= there["metadata"].get("labels", {}).items()
    )


def plainly(
    claims: list[Manifest], volumes: list[Manifest], labels: dict[str, str], taken: set[str]
) -> dict[str, str] | None:
    """Claim -> volume on a node with these labels; None if one finds none."""
    given: dict[str, str] = {}
    for asking in sorted(claims, key=lambda each: gib(each["spec"]["resources"]["requests"]["storage"])):
        free = [
            each
            for each in volumes
            if each["metadata"]["name"] not in taken | set(given.values())
            and fits(each, asking)
            and reaches(each, labels)
        ]
        if not free:
            return None
        best = min(
            free, key=lambda each: (gib(each["spec"]["capacity"]["storage"]), each["metadata"]["name"])
        )
        given[asking["metadata"]["name"]] = best["metadata"]["name"]
    return given


@pytest.mark.parametrize("seed", range(150))
def test_every_node_is_told_what_a_plain_search_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    monkeypatch.setattr(shelves, "FEW_ROWS", dice.choice((0, 2, 64)))
    places = {f"n{number}": {"zone": dice.choice(ZONES)} for number in range(dice.randint(1, 8))}
    cluster = stored(
        Cluster(*(host(name, **labels) for name, labels in places.items())), storage_class("local")
    )
    made = []
    for number in range(dice.randint(1, 9)):
        there = volume(f"v{number}", of="local", size=f"{dice.randint(1, 6)}Gi")
        match dice.choice(("everywhere", "zone", "node", "either")):
            case "zone":
                there = there.reached_from(line("zone", "In", dice.choice(ZONES)))
            case "node":
                there = there.at_node(dice.choice(list(places)))
            case "either":
                there = there.at_node(dice.choice(list(places))).reached_from(line("zone", "In", "x"))
        there = there.labelled(grade=dice.choice(("gold", "tin")))
        made.append(there.in_phase("Released") if dice.random() < 0.1 else there)
    stored(cluster, *made)
    asked = []
    for number in range(5):
        # All sizes differ: who of two equal claims goes first is nobody's promise.
        asking = claim(f"c{number}", of="local", size=f"{number + 1}Gi")
        graded = asking.asking(selector={"matchLabels": {"grade": "gold"}})
        asked.append(graded if dice.random() < 0.3 else asking)
    dice.shuffle(asked)
    stored(cluster, *asked)
    volumes = [each.manifest() for each in made]
    labels = {name: {**of, "kubernetes.io/hostname": name} for name, of in places.items()}
    taken: set[str] = set()
    for number in range(3):  # pods that come one after another, each beside what the earlier were promised
        claims = [asked.pop().manifest() for _ in range(dice.randint(1, 2)) if asked]
        if not claims:
            break
        names = [each["metadata"]["name"] for each in claims]
        coming = pod(f"p{number}").mounting(*names)
        plain = {name: plainly(claims, volumes, labels[name], taken) for name in places}
        good = sorted(name for name, given in plain.items() if given is not None)
        assert let_through("VolumeBinding", cluster, coming) == good
        if good:
            where = dice.choice(good)
            cluster.place(coming.selecting({"kubernetes.io/hostname": where}))
            given = plain[where]
            assert given is not None
            for name in names:
                promise = cluster.state.volumes.promised(f"team/{name}")
                assert promise is not None
                assert (promise.node, promise.volume) == (where, given[name])
            taken |= set(given.values())


# -- how many more, told plainly ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_room_follows_every_change(seed: int) -> None:
    """Pods, claims, volumes, attachments and drivers come and go; the room is what a recount says."""
    dice = random.Random(seed)
    nodes = ["a", "b", "c"]
    cluster = stored(Cluster(*map(host, nodes)), storage_class("made", provisioner=DRIVER))
    limits: dict[str, int] = {}
    bound: dict[str, bool] = {}
    made: set[str] = set()
    attached: set[tuple[str, str]] = set()
    running: dict[str, tuple[str, str]] = {}
    for step in range(60):
        name, where = f"d{dice.randrange(4)}", dice.choice(nodes)
        match dice.choice(("limit", "claim", "bind", "volume", "attach", "run", "end", "relabel", "gone")):
            case "limit":
                limits[where] = dice.randint(0, 3)
                stored(cluster, csi_node(where, {DRIVER: limits[where]}))
            case "claim":
                bound[name] = False
                stored(cluster, claim(name, of="made"))
            case "bind":
                bound[name] = True
                stored(cluster, claim(name, of="made").bound_to(f"v-{name}"))
            case "volume":
                there = volume(f"v-{name}", of="made").served_by()
                (gone if name in made else stored)(cluster, there)
                made ^= {name}
            case "attach":
                thing = attachment(f"v-{name}", to=where)
                if (name, where) in attached:
                    gone(cluster, thing)
                else:
                    stored(cluster, thing)
                attached ^= {(name, where)}
            case "run":
                cluster.running(pod(f"p{step}").mounting(name), on=where)
                running[f"uid-p{step}"] = (name, where)
            case "end" if running:
                uid = dice.choice(list(running))
                cluster.state.drop_pod(uid)
                del running[uid]
            case "relabel":
                cluster.add(host(where, zone=str(step)))
            case "gone":
                gone(cluster, claim(name, of="made"))
                bound.pop(name, None)
        room = cluster.state.volumes.attached.room(DRIVER)
        for place in nodes:
            if place not in limits:
                continue
            used = {
                f"handle-v-{name}" if bound[name] and name in made else f"no volume {name}"
                for name, there in running.values()
                if there == place and name in bound
            }
            used |= {f"handle-v-{name}" for name, there in attached if there == place and name in made}
            assert room is not None
            assert int(room[cluster.row(place)]) == limits[place] - len(used)


def test_an_object_that_says_the_same_is_no_news() -> None:
    cluster = Cluster(host("a"))
    for thing in (claim("d", of="x"), volume("v"), storage_class("x"), csi_node("a", {DRIVER: 1})):
        again = thing.with_(lambda it: it["metadata"].update(resourceVersion="2"))
        stored(cluster, thing)
        version = cluster.state.volumes.version
        stored(cluster, again)
        assert cluster.state.volumes.version == version
    assert cluster.state.volumes.claims["team/d"].version == "2", "whoever writes needs the latest"


def test_a_volume_that_is_gone_is_offered_no_more() -> None:
    cluster = stored(Cluster(host("a")), storage_class("local"), claim("d", of="local"))
    there = volume("v", of="local")
    stored(cluster, there)
    assert let_through("VolumeBinding", cluster, pod("p").mounting("d")) == ["a"]
    gone(cluster, there)
    assert let_through("VolumeBinding", cluster, pod("p").mounting("d")) == []
    stored(cluster, there)
    assert let_through("VolumeBinding", cluster, pod("p").mounting("d")) == ["a"]


def test_nodes_that_come_later_are_reached() -> None:
    cluster = stored(Cluster(host("a")), storage_class("local"), claim("d", of="local"))
    stored(cluster, volume("v", of="local").at_node("late"))
    asking = pod("p").mounting("d")
    assert let_through("VolumeBinding", cluster, asking) == []
    for number in range(40):  # more than there were rows for
        cluster.add(host(f"n{number}"))
    cluster.add(host("late"))
    assert let_through("VolumeBinding", cluster, asking) == ["late"]
    cluster.add(host("late").labelled({"kubernetes.io/hostname": "other"}))
    assert let_through("VolumeBinding", cluster, asking) == []


def test_what_is_taken_away_from_a_draft_and_put_back_leaves_no_promise() -> None:
    """A pod that runs was promised nothing; a planner may still look what would be without it."""
    cluster = stored(
        Cluster(host("a")), storage_class("local"), claim("d", of="local"), volume("v", of="local")
    )
    there = pod("p").mounting("d")
    cluster.running(there, on="a")
    with cluster.state.draft() as draft:
        draft.put_back(cluster.row("a"), cluster.kind(there), ())
    assert cluster.state.volumes.promised("team/d") is None
    assert np.all(cluster.state.draft().exists[[cluster.row("a")]])
