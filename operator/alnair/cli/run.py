"""`alnair run`: the operator itself."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Annotated

import typer


def run(
    *,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Kubeconfig to use; default: the pod's ServiceAccount, else $KUBECONFIG or ~/.kube/config."
        ),
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="The profiles (YAML), read again when the file changes; default: those that the chart ships."
        ),
    ] = None,
    config_map: Annotated[
        str,
        typer.Option(
            help="ConfigMap in the Lease's namespace that the file is mounted from; events about the file are about it."
        ),
    ] = "",
    lease_namespace: Annotated[
        str, typer.Option(envvar="POD_NAMESPACE", help="Namespace of the Lease that says who leads.")
    ] = "alnair-system",
    lease_name: Annotated[str, typer.Option(help="Name of that Lease.")] = "alnair",
    lease_duration: Annotated[
        float, typer.Option(min=1.0, help="Seconds without renewal until another replica takes over.")
    ] = 15.0,
    host: Annotated[str, typer.Option(help="Address for metrics and probes.")] = "127.0.0.1",
    metrics_port: Annotated[
        int, typer.Option(help="Port of /metrics and /readyz; 0 takes any free one.")
    ] = 9090,
    metrics_authenticate: Annotated[
        bool,
        typer.Option(
            help="On other than loopback addresses, show /metrics only to those whom the apiserver says may get it."
        ),
    ] = True,
    metrics_audience: Annotated[
        list[str] | None,
        typer.Option(help="What such a token must be made for (may be repeated); default: the apiserver."),
    ] = None,
    metrics_cert_file: Annotated[
        Path | None, typer.Option(help="Certificate of /metrics and /readyz; default: no TLS.")
    ] = None,
    metrics_key_file: Annotated[Path | None, typer.Option(help="Its key.")] = None,
    liveness_port: Annotated[int, typer.Option(help="Port of /healthz; 0 switches it off.")] = 0,
    extender_address: Annotated[
        str, typer.Option(help="HOST:PORT of the extender, if the config has one; see docs/extender.md.")
    ] = "127.0.0.1:8888",
    extender_secret_file: Annotated[
        Path | None,
        typer.Option(help="What kube-scheduler must show there, as the password of its urlPrefix."),
    ] = None,
    extender_cert_file: Annotated[
        Path | None, typer.Option(help="Certificate of the extender; needed on all but loopback addresses.")
    ] = None,
    extender_key_file: Annotated[Path | None, typer.Option(help="Its key.")] = None,
    extender_client_ca_file: Annotated[
        Path | None, typer.Option(help="The authority whose certificates kube-scheduler may show.")
    ] = None,
    extender_service: Annotated[
        str, typer.Option(help="Service in the Lease's namespace that is to lead to the leader's extender.")
    ] = "",
    extender_service_address: Annotated[
        str, typer.Option(envvar="POD_IP", help="IP address by which that Service reaches this replica.")
    ] = "",
    horovod_jobs: Annotated[
        bool, typer.Option(help="Reconcile ElasticHorovodJobs; see docs/elastic-horovod.md.")
    ] = True,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Run the scheduler until it is stopped.

    Prints one JSON line, {"ready": true, …}, once it leads and has caught up.
    """
    from alnair.handlers import memory

    memory.keep_holes_few()  # before what is imported next starts threads

    import uvloop

    from alnair.api.config import DEFAULT, BadConfig, load_config
    from alnair.cli.logs import set_up
    from alnair.console.certificate import BadCertificate, serving_tls
    from alnair.control.overtime import overtime
    from alnair.extender.door import BadDoor, open_door
    from alnair.handlers.lifecycle import Operator
    from alnair.handlers.settings import RunSettings
    from alnair.kube.connection import NoConnection, connect
    from alnair.kube.loop import Loop
    from alnair.scheduling.profile import build_all
    from alnair.scheduling.registry import installed

    if log_level.upper() not in logging.getLevelNamesMapping():
        raise typer.BadParameter(
            f"{log_level!r} is none of debug, info, warning, error", param_hint="--log-level"
        )
    set_up(log_level.upper())
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # It warns at every start that signals are not its business; they are ours, as it should be.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
    try:
        loaded = load_config(config) if config is not None else DEFAULT
        registry = installed()
        build_all(loaded, registry, origin=str(config), limit=overtime)
        door = None
        if loaded.extender is not None:
            door = open_door(
                extender_address,
                secret_file=extender_secret_file,
                certificate=extender_cert_file,
                key=extender_key_file,
                client_authority=extender_client_ca_file,
                service=extender_service,
                reached_at=extender_service_address,
            )
        tls = serving_tls(metrics_cert_file, metrics_key_file)
        connection = connect(kubeconfig=kubeconfig, context=context)
    except (BadConfig, BadDoor, BadCertificate, NoConnection) as error:
        typer.echo(f"alnair: {error}", err=True)
        raise typer.Exit(2) from None

    def ready(metrics: int, extender: int) -> None:
        ports = {"metrics_port": metrics, **({"extender_port": extender} if extender else {})}
        print(json.dumps({"ready": True, **ports, "pid": os.getpid()}), flush=True)

    settings = RunSettings(
        connection=connection,
        config=loaded,
        config_path=config,
        config_map=config_map,
        registry=registry,
        lease_namespace=lease_namespace,
        lease_name=lease_name,
        lease_seconds=lease_duration,
        host=host,
        metrics_port=metrics_port,
        metrics_authenticate=metrics_authenticate,
        metrics_audiences=tuple(metrics_audience or ()),
        metrics_tls=tls,
        liveness_port=liveness_port,
        door=door,
        service=extender_service,
        address=extender_service_address,
        horovod_jobs=horovod_jobs,
    )

    async def start() -> int:
        return await Operator(settings, on_ready=ready).run()

    raise typer.Exit(uvloop.run(start(), loop_factory=Loop))
