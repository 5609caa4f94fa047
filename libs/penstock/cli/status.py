"""`penstock status`: whether all parts of Penstock are well."""

from __future__ import annotations

import typer

from penstock.cli.arguments import AsJson
from penstock.cli.connection import client
from penstock.cli.output import Whole, show_json, table


def status(as_json: AsJson = False) -> None:
    """Show whether all parts of Penstock are well. Exit code 1: one is not.

    Loops with the age of their last round, services, the store, Kafka, containers, open alerts. What to do stands
    beside each that is not well, and beside containers that are lost though all else is well.
    """
    found = client().status()
    if as_json:
        show_json(found)
    else:
        rows = [
            ("ok" if line.ok else "BAD", line.part, Whole(line.summary), Whole(line.advice or ""))
            for line in found.parts
        ]
        table(("", "part", "state", "what to do"), rows)
    if not found.ok:
        raise typer.Exit(1)
