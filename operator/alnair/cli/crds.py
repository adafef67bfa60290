"""`alnair crds`: the CustomResourceDefinitions, as text or into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def crds(
    *,
    write: Annotated[
        Path | None, typer.Option(help="Write one file a kind into this folder instead of printing them.")
    ] = None,
) -> None:
    """Print the CustomResourceDefinitions that Alnair needs: `alnair crds | kubectl apply -f -`."""
    from alnair.api.crds import render_crds, write_crds

    if write is None:
        typer.echo("---\n".join(render_crds().values()), nl=False)
        return
    write_crds(write)
    typer.echo(f"written to {write}")
