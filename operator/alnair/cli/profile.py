"""`alnair profile`: profiles from what people configured kube-scheduler with, and what a config file does."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from alnair.scheduling.importing import Imported

app = typer.Typer(
    no_args_is_help=True, help="Make, check and list profiles: what a schedulerName stands for."
)


@app.command("import")
def import_(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="kube-scheduler's Policy or KubeSchedulerConfiguration, JSON or YAML, or a ConfigMap with one; - is "
            "standard input.",
        ),
    ],
    *,
    scheduler_name: Annotated[
        str | None, typer.Option(help="What pods write into schedulerName to get the profile.")
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Only the filters that kube-scheduler would have run: without Alnair's own, for experiments.",
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if anything of the file has no equivalent.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the config file there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON instead of YAML.")] = False,
) -> None:
    """Print the profile that an old kube-scheduler file stands for, and say what of it has no equivalent."""
    from alnair.scheduling.importing import Unreadable, import_profiles, written

    origin = "standard input" if file == "-" else file
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        imported = import_profiles(content, origin=origin, scheduler_name=scheduler_name, exact=exact)
        text = written(imported)
        _usable(text, origin)
    except OSError as error:
        raise _failed(f"{origin}: cannot be read: {error.strerror or error}") from None
    except Unreadable as error:
        raise _failed(str(error)) from None
    for profile in imported:
        for remark in profile.remarks:
            typer.echo(f"alnair: {'not taken over: ' if remark.lost else ''}{remark}", err=True)
    if strict and any(remark.lost for profile in imported for remark in profile.remarks):
        raise _failed(f"{origin}: has parts without an equivalent (above), and --strict is given")
    if output is not None:
        output.write_text(text)
    if as_json:
        typer.echo(json.dumps(_as_json(imported, text)))
    elif output is None:
        typer.echo(text, nl=False)


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A config file as of `alnair run --config`.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON instead of text.")] = False,
) -> None:
    """Say what each profile of a config file does, or what is wrong with it."""
    from alnair.api.config import BadConfig, load_config
    from alnair.scheduling.catalogue import description
    from alnair.scheduling.profile import build_all
    from alnair.scheduling.registry import installed

    try:
        config = load_config(file)
        built = build_all(config, installed(), origin=str(file))
    except BadConfig as error:
        raise _failed(str(error)) from None
    told = {name: description(profile) for name, profile in config.by_name().items()}
    broken = {name: list(built[name].broken) for name in told if built[name].broken}
    if as_json:
        typer.echo(json.dumps({"profiles": told, "broken": broken}))
    else:
        for name, parts in told.items():
            typer.echo(name)
            for point, text in parts.items():
                typer.echo(f"  {point:<11} {text}")
    for name, reasons in broken.items():
        for reason in reasons:
            typer.echo(f"alnair: profile {name} would run on its fallback: {reason}", err=True)
    if broken:
        raise typer.Exit(1)


@app.command("list")
def list_(
    *,
    point: Annotated[str | None, typer.Option(help="Only this point: filters, scorers, picker, …")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON instead of text.")] = False,
) -> None:
    """List the rules that a profile can name, by point: Alnair's own, and those of installed packages."""
    from alnair.scheduling.catalogue import entries
    from alnair.scheduling.registry import POINTS, installed

    if point is not None and point not in POINTS:
        raise typer.BadParameter(
            f"{point!r} is no point; there are {', '.join(POINTS)}", param_hint="--point"
        )
    registry = installed()
    listed = [each for each in entries(registry) if point in (None, each.point)]
    if as_json:
        rules = [asdict(each) for each in listed]
        typer.echo(json.dumps({"rules": rules, "broken": dict(registry.broken)}))
        return
    for heading in dict.fromkeys(each.point for each in listed):
        typer.echo(heading)
        for each in listed:
            if each.point == heading:
                package = f" [{each.package}]" if each.package else ""
                typer.echo(f"  {each.name:<26} {each.purpose}{package}")
                for option, default in each.options.items():
                    typer.echo(f"  {'':<26}   {option}: {json.dumps(default)}")
    for name, reason in registry.broken.items():
        typer.echo(f"alnair: rule {name}: {reason}", err=True)


def _usable(text: str, origin: str) -> None:
    """What is printed can be loaded: read and built as `alnair run` does it."""
    from alnair.api.config import BadConfig, parse_config
    from alnair.scheduling.importing import Unreadable
    from alnair.scheduling.profile import build_all

    try:
        build_all(parse_config(text, origin=origin), origin=origin)
    except BadConfig as error:
        raise Unreadable(str(error)) from error


def _as_json(imported: list[Imported], text: str) -> dict[str, object]:
    import yaml

    remarks = [
        {"profile": profile.scheduler_name, "where": each.where, "text": each.text, "lost": each.lost}
        for profile in imported
        for each in profile.remarks
    ]
    return {**yaml.safe_load(text), "remarks": remarks}


def _failed(message: str) -> typer.Exit:
    for line in message.splitlines():
        typer.echo(f"alnair: {line}", err=True)
    return typer.Exit(1)
