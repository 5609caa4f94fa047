"""`python -m penstock.spark.host --commands FD --events FD --name NAME`: started by `penstock.spark.host.client`."""

from __future__ import annotations

import argparse
import logging
import os
import signal
from typing import NoReturn

from penstock.control.errors import Unavailable
from penstock.control.logs import configure, logger
from penstock.control.masks import Masks
from penstock.spark.access import secrets_of_kafka
from penstock.spark.channel import Ready
from penstock.spark.host.exits import ExitReason
from penstock.spark.host.pipes import MessageWriter, whole_lines
from penstock.spark.host.server import Host
from penstock.spark.session import start_session
from penstock.spark.settings import SparkSettings

log = logger(__name__)


def main() -> NoReturn:
    """Runs a host until its supervisor, its lease or its JVM ends."""
    arguments = _parse()
    # Ctrl-C in a terminal is for the supervisor, which then ends its hosts.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    masks = Masks()
    settings = SparkSettings()
    configure(f"host {arguments.name}", log_format=settings.log_format, level=settings.log_level, mask=masks.apply)
    # pyspark logs each bad query with its plan and stacks; the reply to the command says what is wrong.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    masks.add(secrets_of_kafka(settings))
    events = MessageWriter(arguments.events, "events", lost=_end, mask=masks.apply)
    try:
        spark, jvm = start_session(arguments.name, settings)
    except Unavailable as error:
        log.error("host cannot start", error=error.detail)
        os._exit(ExitReason.NOT_STARTED)
    host = Host(arguments.name, spark, jvm, settings, events, masks)
    events.send(Ready(pid=os.getpid(), jvm_pid=jvm.pid))
    host.serve(whole_lines(arguments.commands))


def _end() -> NoReturn:
    os._exit(ExitReason.SUPERVISOR_GONE)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="penstock.spark.host")
    parser.add_argument("--commands", type=int, required=True, help="file descriptor to read commands from")
    parser.add_argument("--events", type=int, required=True, help="file descriptor to write events to")
    parser.add_argument("--name", required=True, help="name of the host, for logs and FENCE files")
    return parser.parse_args()


if __name__ == "__main__":
    main()
