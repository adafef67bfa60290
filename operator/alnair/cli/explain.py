"""`alnair explain podgroup/NAME`: why a gang is where it is, or why it is nowhere yet."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from alnair.api import names


def explain(
    what: Annotated[str, typer.Argument(help="podgroup/NAME or pod/NAME", metavar="KIND/NAME")],
    *,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the object.")] = "default",
    kubeconfig: Annotated[Path | None, typer.Option(help="Kubeconfig to use.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON instead of text.")] = False,
) -> None:
    """Say in words why a group or a pod is scheduled as it is, or why it waits."""
    from alnair.kube import Client, Refused, Unanswered
    from alnair.kube.connection import NoConnection, connect

    kind, _, name = what.partition("/")
    kind = {
        "podgroup": "podgroup",
        "podgroups": "podgroup",
        "pg": "podgroup",
        "pod": "pod",
        "pods": "pod",
    }.get(kind.lower(), "")
    if not kind or not name:
        raise typer.BadParameter(f"{what!r} is neither podgroup/NAME nor pod/NAME")

    async def ask() -> dict[str, Any]:
        async with Client(connect(kubeconfig=kubeconfig, context=context)) as client:
            return await (_group if kind == "podgroup" else _pod)(client, namespace, name)

    try:
        answer = asyncio.run(ask())
    except Refused as refused:
        if refused.status != 404:
            raise
        typer.echo(f"alnair: there is no {kind} {name} in namespace {namespace}", err=True)
        raise typer.Exit(1) from None
    except (NoConnection, Unanswered) as error:
        typer.echo(f"alnair: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(json.dumps(answer) if as_json else _text(answer))


async def _group(client: Any, namespace: str, name: str) -> dict[str, Any]:
    path = f"/apis/{names.API_PODGROUP}/namespaces/{namespace}/{names.PLURAL_PODGROUP}/{name}"
    group = await client.get(path)
    status = group.get("status") or {}
    condition: dict[str, Any] = next(
        (each for each in status.get("conditions") or [] if each["type"] == "Scheduled"), {}
    )
    pods = await client.get(
        f"/api/v1/namespaces/{namespace}/pods", params={"labelSelector": f"{names.POD_GROUP_LABEL}={name}"}
    )
    return {
        "kind": names.KIND_PODGROUP,
        "namespace": namespace,
        "name": name,
        "phase": status.get("phase") or "not seen by Alnair",
        "minMember": max(1, (group.get("spec") or {}).get("minMember") or 0),
        "members": len(pods["items"]),
        "scheduled": status.get("scheduled", 0),
        "reason": condition.get("reason", ""),
        "message": condition.get("message", "") or _silence(pods["items"]),
        "record": names.record_name(name, group["metadata"]["uid"]),
        "placements": await _placements(client, namespace, names.record_name(name, group["metadata"]["uid"])),
    }


async def _pod(client: Any, namespace: str, name: str) -> dict[str, Any]:
    pod = await client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    if group := pod["metadata"].get("labels", {}).get(names.POD_GROUP_LABEL):
        return await _group(client, namespace, group)
    conditions = pod["status"].get("conditions") or []
    condition: dict[str, Any] = next((each for each in conditions if each["type"] == "PodScheduled"), {})
    bound = pod["spec"].get("nodeName")
    record = names.record_name(name, pod["metadata"]["uid"])
    return {
        "kind": "Pod",
        "namespace": namespace,
        "name": name,
        "phase": pod["status"].get("phase", ""),
        "minMember": 1,
        "members": 1,
        "scheduled": int(bool(bound)),
        "reason": condition.get("reason", ""),
        "message": f"Bound to {bound}." if bound else condition.get("message", "") or _silence([pod]),
        "record": record,
        "placements": await _placements(client, namespace, record),
    }


async def _placements(client: Any, namespace: str, record: str) -> list[dict[str, Any]]:
    from alnair.kube import Refused
    from alnair.ledger.records import decided

    path = f"/apis/{names.API_ALLOCATION}/namespaces/{namespace}/{names.PLURAL_ALLOCATION}/{record}"
    try:
        allocation = await client.get(path)
    except Refused as refused:
        if refused.status == 404:
            return []
        raise
    try:
        return list(decided(allocation).get("pods") or [])
    except ValueError:
        return []  # a plan that cannot be read shows nothing


def _silence(pods: list[dict[str, Any]]) -> str:
    """No scheduler of ours has said anything: the likeliest reason."""
    if not pods:
        return f"No pod carries the label {names.POD_GROUP_LABEL} with this name yet."
    schedulers = sorted({pod["spec"].get("schedulerName", "") for pod in pods})
    return (
        f"Alnair has said nothing yet; the pods ask for scheduler {', '.join(schedulers)}. Is it installed?"
    )


def _text(answer: dict[str, Any]) -> str:
    counts = f"{answer['scheduled']} of at least {answer['minMember']} scheduled ({answer['members']} exist)"
    lines = [
        f"{answer['kind']} {answer['namespace']}/{answer['name']}: {answer['phase']}, {counts}",
        f"  {answer['reason']}: {answer['message']}" if answer["reason"] else f"  {answer['message']}",
    ]
    lines += [f"  {pod['name']} -> {pod['node']}: {_held(pod)}" for pod in answer["placements"]]
    return "\n".join(lines)


def _held(pod: dict[str, Any]) -> str:
    """What a record says that the pod holds."""
    from alnair.state.holding import Holding, shares_from_json

    try:
        holding = Holding(pod["node"], shares_from_json(pod))
    except ValueError as error:
        return f"what it holds cannot be read ({error})"
    slices = [
        f"{'all' if use.whole else f'{use.memory_mib} MiB'} of {use.card}" for use in holding.footprint()
    ]
    return ", ".join(slices) or (f"{holding.counted} whole GPUs" if holding.counted else "no GPU")
