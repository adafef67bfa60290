"""`alnair …` and `kubectl alnair …`. One file a command; this one only lists them."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="alnair",
    help="A GPU scheduler for Kubernetes: whole gangs or nothing, exact GPU slices, every decision recorded.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    from alnair.cli import cluster, crds, demo, explain, extender, profile, run, simulate

    app.command(name="run")(run.run)
    app.command(name="explain")(explain.explain)
    app.command(name="demo")(demo.demo)
    app.command(name="simulate")(simulate.simulate)
    app.command(name="crds")(crds.crds)
    app.add_typer(cluster.app, name="cluster")
    app.add_typer(extender.app, name="extender")
    app.add_typer(profile.app, name="profile")
    app()
