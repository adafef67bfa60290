"""`alnair extender config`: what kube-scheduler has to be told to use the extender."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="The extender of kube-scheduler; see docs/extender.md.", no_args_is_help=True)


@app.callback()
def extender() -> None:
    """The extender of kube-scheduler; see docs/extender.md."""


@app.command()
def config(
    *,
    url: Annotated[str, typer.Option(help="Where kube-scheduler reaches the extender: http(s)://HOST:PORT.")],
    config: Annotated[
        Path | None, typer.Option(help="Alnair's own config file; default: what the chart ships.")
    ] = None,
    secret_file: Annotated[
        Path | None, typer.Option(help="What `alnair run` was given as --extender-secret-file.")
    ] = None,
    server_name: Annotated[str, typer.Option(help="The name in the extender's certificate.")] = "",
    cert_file: Annotated[str, typer.Option(help="kube-scheduler's certificate, on its machine.")] = "",
    key_file: Annotated[str, typer.Option(help="Its key, on its machine.")] = "",
    ca_file: Annotated[
        str, typer.Option(help="The authority of the extender's certificate, there too.")
    ] = "",
    weight: Annotated[int, typer.Option(min=1, help="Of Alnair's score beside those of kube-scheduler.")] = 2,
) -> None:
    """Print the KubeSchedulerConfiguration, to be completed with the rest of yours (leader election, kubeconfig)."""
    import yaml

    from alnair.api.config import BadConfig, load_config
    from alnair.api.extender import Extender
    from alnair.extender.advice import Way, kube_scheduler_configuration
    from alnair.extender.door import BadDoor, read_secret

    try:
        terms = (load_config(config).extender if config is not None else None) or Extender()
        secret = read_secret(secret_file, flag="--secret-file").decode() if secret_file is not None else ""
        way = Way(url, secret, server_name, cert_file, key_file, ca_file)
    except (BadConfig, BadDoor, ValueError) as error:
        typer.echo(f"alnair: {error}", err=True)
        raise typer.Exit(2) from None
    told = kube_scheduler_configuration(terms, way, weight=weight)
    typer.echo(yaml.safe_dump(told, sort_keys=False), nl=False)
