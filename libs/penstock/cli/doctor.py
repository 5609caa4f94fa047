"""`penstock doctor`: what is wrong here, and what to do about it. Needs no running stack."""

from __future__ import annotations

import typer

from penstock.cli.arguments import AsJson
from penstock.cli.checks import found
from penstock.cli.errors import Exit
from penstock.cli.findings import Finding, Level
from penstock.cli.kafka_settings import CliKafkaSettings
from penstock.cli.output import say, show_data

_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


def doctor(as_json: AsJson = False) -> None:
    """Check Java, disk, certificates, Postgres, migrations, Kafka, clocks, the token and the cell; say what to do.

    It needs no running stack and changes nothing. Exit code 1: a line says `fail`; warnings do not count.
    """
    settings, seen = CliKafkaSettings.read(), []
    for each in found(settings):
        seen.append(each)
        if not as_json:
            _say(each)
    if as_json:
        show_data([each._asdict() | {"level": each.level.value} for each in seen])
    if any(each.level is Level.FAIL for each in seen):
        raise typer.Exit(Exit.REFUSED)


def _say(each: Finding) -> None:
    say(f"{each.level:<5} {each.part:<13} {each.summary}", style=_STYLES[each.level])
    if each.advice:
        say(f"{'':<5} {'':<13} -> {each.advice}")
