"""`penstock topics`: Kafka topics."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.output import say
from penstock.cli.settings import CliSettings
from penstock.local.topics import create_topics


def create(
    name: Annotated[str, typer.Argument(help="name of the topic")],
    partitions: Annotated[int, typer.Option(min=1, help="number of partitions: the most tasks a job can have")] = 8,
) -> None:
    """Create a Kafka topic. Its partitions are the key groups of the jobs that read it."""
    create_topics(CliSettings.read().bootstrap(), {name: partitions})
    say(f"created {name} with {partitions} partitions")
