"""`penstock up`: the whole of Penstock on one machine."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.arguments import PortBase
from penstock.cli.kafka_settings import CliKafkaSettings
from penstock.cli.output import say
from penstock.control import logs
from penstock.control.errors import UserError
from penstock.control.masks import mask_urls
from penstock.control.settings import CommonSettings
from penstock.local.services import MOST_TASK_MANAGERS, PORT_BASE
from penstock.local.stack import LocalStack


def up(
    task_managers: Annotated[
        int, typer.Option(min=1, max=MOST_TASK_MANAGERS, help="number of Task Managers (containers)")
    ] = 2,
    data_dir: Annotated[
        Path | None, typer.Option(help="folder of the data; default: PENSTOCK_DATA_DIR, else .penstock")
    ] = None,
    port_base: PortBase = PORT_BASE,
    database_url: Annotated[
        str | None, typer.Option(help="use this Postgres server instead of the embedded one")
    ] = None,
    kafka: Annotated[str | None, typer.Option(help="use this Kafka instead of the embedded one (host:port)")] = None,
) -> None:
    """Run Postgres, Kafka, all services and Task Managers on this machine. Ctrl-C, or SIGTERM, stops them.

    The data survive in the data folder. Other commands find the stack by that folder: `.penstock` in the folder where
    they run, or PENSTOCK_DATA_DIR.
    """
    logs.configure("cli", level="WARNING")
    require_no_password(database_url)
    require_http(CommonSettings())
    end_on_signals()
    found_by_default = CliKafkaSettings().data_dir
    folder = data_dir or CliKafkaSettings.read().data_dir
    stack = LocalStack(
        folder,
        task_managers=task_managers,
        port_base=port_base,
        database=database_url,
        kafka=kafka,
        console=True,
        on_event=say,
    )
    try:
        with stack:
            say(f"ready: {stack.url}  token in {stack.data_dir / 'admin.token'}  (Ctrl-C stops all)", style="green")
            say(f"console: {stack.console_url}  sign in with that token", style="green")
            if folder != found_by_default:
                say(f"for the other commands: export PENSTOCK_DATA_DIR={shlex.quote(str(stack.data_dir))}")
            signal.pause()
    except KeyboardInterrupt:
        say("stopped")


def require_http(settings: CommonSettings) -> None:
    """Raises UserError where TLS on loopback is asked for. A stack on one machine has no certificates, so no process of
    it would start."""
    if settings.internal_tls:
        raise UserError(
            "`penstock up` and `penstock demo` speak HTTP: unset PENSTOCK_INTERNAL_TLS, or set the processes up as "
            "those of a cell (services/CELL.md)",
            field="PENSTOCK_INTERNAL_TLS",
            rule="http",
        )


def require_no_password(database_url: str | None) -> None:
    """Raises UserError for a URL with a password: every account of the machine sees command lines."""
    if database_url is not None and mask_urls(database_url) != database_url:
        raise UserError(
            "leave the password out: `ps` shows it to everybody. Put it into the file of PGPASSFILE",
            field="database_url",
            rule="no_password",
        )


def end_on_signals() -> None:
    """Makes SIGTERM end the process as Ctrl-C does, so that everything is stopped in order.

    SIGINT gets its usual handler back too: a shell may have started this process with SIGINT ignored.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
