"""Alnair's own format: a JSON object a line, each a node or a job.

    {"node": {"name": "a", "cpu": 96000, "memoryMiB": 393216, "cards": 8, "model": "A100"}}
    {"job": {"name": "j", "cpu": 4000, "memoryMiB": 1024, "cards": 1, "gpu": 500, "models": ["A100"],
             "pods": 1, "arrives": 0, "lasts": 60,
             "elastic": {"min": 1, "max": 4, "speedup": [[2, 1.9], [4, 3.5]]}}}

Cpu is in thousandths of a core, `gpu` in thousandths of each of `cards`. Of a node `name` is needed, of a job nothing:
it comes at 0, lasts for ever, and has one pod that asks for nothing. An unknown field is a mistake. An elastic job may
have from `min` to `max` pods. It lasts so long with `pods`, and is so many times as fast as one pod with each number;
without `speedup`, as Alnair assumes by default.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from alnair.api.quantity import shown
from alnair.api.text import one_line
from alnair.scheduling.elastic.curves import default, from_points
from alnair.simulate.openb import MOST, MOST_CARDS, MOST_LINES
from alnair.simulate.trace import CARD, BadTrace, Elastic, Job, Machine, Trace

MOST_PODS = 10_000
LONGEST_LINE = 1 << 16

Amount = Annotated[int, Meta(ge=0, le=MOST)]
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]


class NodeLine(Struct, forbid_unknown_fields=True, rename="camel"):
    name: Name
    cpu: Amount = 0
    memory_mib: Amount = msgspec.field(name="memoryMiB", default=0)
    cards: Annotated[int, Meta(ge=0, le=MOST_CARDS)] = 0
    model: Annotated[str, Meta(max_length=128)] = ""


class ElasticLine(Struct, forbid_unknown_fields=True):
    least: Annotated[int, Meta(ge=1, le=MOST_PODS)] = msgspec.field(name="min")
    most: Annotated[int, Meta(ge=1, le=MOST_PODS)] = msgspec.field(name="max")
    speedup: Annotated[
        list[tuple[Annotated[int, Meta(ge=1, le=MOST_PODS)], Annotated[float, Meta(gt=0, le=MOST_PODS)]]],
        Meta(max_length=64),
    ] = []


class JobLine(Struct, forbid_unknown_fields=True, rename="camel"):
    name: Annotated[str, Meta(max_length=253)] = ""
    cpu: Amount = 0
    memory_mib: Amount = msgspec.field(name="memoryMiB", default=0)
    cards: Annotated[int, Meta(ge=0, le=MOST_CARDS)] = 0
    gpu: Annotated[int, Meta(ge=1, le=CARD)] = CARD
    models: Annotated[list[Name], Meta(max_length=32)] = []
    pods: Annotated[int, Meta(ge=1, le=MOST_PODS)] = 1
    arrives: Seconds = 0.0
    lasts: Seconds | None = None
    elastic: ElasticLine | None = None


class Line(Struct, forbid_unknown_fields=True):
    node: NodeLine | None = None
    job: JobLine | None = None


def read_trace(path: Path) -> Trace:
    """Its nodes may be none: then they come from elsewhere."""
    machines: dict[str, Machine] = {}
    jobs: dict[str, Job] = {}
    decoder = msgspec.json.Decoder(Line)
    try:
        with path.open("rb") as file:
            for count, text in enumerate(file, start=1):
                where = f"{path} line {count}"
                if count > MOST_LINES or len(text) > LONGEST_LINE:
                    raise BadTrace(f"{where}: too many lines, or too long a line")
                if not text.strip():
                    continue
                try:
                    line = decoder.decode(text)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    raise BadTrace(f"{where}: {one_line(str(error), most=300)}") from None
                _add(line, where, machines, jobs)
    except OSError as error:
        raise BadTrace(f"{path}: cannot be read: {error}") from error
    if not jobs:
        raise BadTrace(f"{path}: has no jobs")
    return Trace(tuple(machines.values()), tuple(jobs.values()))


def _add(line: Line, where: str, machines: dict[str, Machine], jobs: dict[str, Job]) -> None:
    if (line.node is None) == (line.job is None):
        raise BadTrace(f'{where}: is neither {{"node": …}} nor {{"job": …}}, or both')
    if line.node is not None:
        node = line.node
        if node.name in machines:
            raise BadTrace(f"{where}: node {shown(node.name)} stands twice")
        machines[node.name] = Machine(node.name, node.cpu, node.memory_mib, node.cards, node.model)
    if line.job is not None:
        job = line.job
        name = job.name or f"job-{len(jobs)}"
        if name in jobs:
            raise BadTrace(f"{where}: job {shown(name)} stands twice")
        jobs[name] = Job(
            name=name,
            cpu=job.cpu,
            memory_mib=job.memory_mib,
            cards=job.cards,
            gpu=job.gpu if job.cards else 0,
            models=tuple(job.models),
            pods=job.pods,
            arrives=job.arrives,
            lasts=job.lasts,
            elastic=_elastic(job, where),
        )


def _elastic(job: JobLine, where: str) -> Elastic | None:
    asked = job.elastic
    if asked is None:
        return None
    if not asked.least <= job.pods <= asked.most:
        raise BadTrace(f"{where}: not min {asked.least} <= pods {job.pods} <= max {asked.most}")
    curve = from_points(asked.speedup) if asked.speedup else default(asked.most)
    return Elastic(asked.least, asked.most, curve)
