"""`penstock topics`: Kafka topics and their records."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

import typer

from penstock.cli.arguments import AsJson
from penstock.cli.bar import opened
from penstock.cli.connection import require_cluster_of_cell, require_unused_topic
from penstock.cli.kafka_settings import CliKafkaSettings
from penstock.cli.output import counted, note, say, show_data, table
from penstock.cli.parse import duration_seconds
from penstock.config.topics import full_topic
from penstock.control.errors import UserError
from penstock.kafka.access import Kafka
from penstock.local import peek as looks
from penstock.local import records, topics

Name = Annotated[str, typer.Argument(help="name of the topic")]
Cluster = Annotated[
    str | None, typer.Option(help="a Kafka cluster of PENSTOCK_KAFKA_CLUSTERS; default: the cell's own Kafka")
]
Whole = Annotated[bool, typer.Option("--whole", help="also print partition, offset, timestamp, key and headers")]
AsBase64 = Annotated[
    bool, typer.Option("--base64", help="print values as base64, with --whole keys too: all of their bytes")
]
_MOST_IN_MEMORY = 2**26


def create(
    name: Name,
    partitions: Annotated[int, typer.Option(min=1, help="number of partitions: the most tasks a job can have")] = 8,
    cluster: Cluster = None,
) -> None:
    """Create a Kafka topic. Its partitions are the key groups of the jobs that read it."""
    topics.create_topics(_kafka(cluster), {name: partitions})
    say(f"created {name} with {partitions} partitions")


def list_(as_json: AsJson = False, cluster: Cluster = None) -> None:
    """List all topics with their partitions and number of offsets. Transaction markers count as offsets too."""
    if as_json:
        return show_data([each._asdict() for each in _all(cluster)])
    return table(("topic", "partitions", "offsets"), [(t.name, t.partitions, f"{t.offsets:,}") for t in _all(cluster)])


def _all(cluster: str | None) -> list[topics.TopicFacts]:
    return topics.list_topics(_kafka(cluster))


def delete(
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="do not ask the Job Service whether a job uses it")] = False,
    cluster: Cluster = None,
) -> None:
    """Delete a topic and all its records. Refused while a job reads or writes it.

    With --cluster also when the cell knows no cluster by that name: its jobs may know the brokers by another one.
    """
    kafka = _kafka(cluster)
    if not force:
        if cluster is not None:
            require_cluster_of_cell(cluster, name)
        require_unused_topic(full_topic(name, cluster))
    topics.delete_topic(kafka, name)
    say(f"deleted {name}")


def produce(
    name: Name,
    file: Annotated[
        Path | None, typer.Argument(help="a file with a record in each line; default: the standard input")
    ] = None,
    form: Annotated[
        records.Format,
        typer.Option(
            "--format",
            help="what a line is: `json` an object; `raw` any text, such as CSV; `base64` bytes, such as a message of "
            "Protobuf",
        ),
    ] = "json",
    key: Annotated[
        str, typer.Option("--key", help="of json: column of the record's key, or several: carrier,dest")
    ] = "",
    separator: Annotated[
        str | None,
        typer.Option(
            help="of raw and base64: a line is the key's text, the first of these, and the value; without it the whole "
            "line is the value. A tab is $'\\t' in a shell"
        ),
    ] = None,
    key_function: Annotated[
        records.KeyFunction,
        typer.Option(help="what decides a key's partition, as the job's input declares: `kafka` is murmur2"),
    ] = "kafka",
    cluster: Cluster = None,
) -> None:
    """Send lines to a topic, one record each: all of them in one transaction, or none.

    Nothing is sent before the last line is read. Empty lines are passed over. A record without a key goes to any
    partition. The key of json is the text of its column, a number as it is written; several columns are a JSON array.
    """
    read = _form(form, [each.strip() for each in key.split(",") if each.strip()], separator)
    kafka = _kafka(cluster)
    partitions = topics.partition_count(kafka, name)
    with _ended_by_signals(), _lines(file) as lines:
        try:
            sent = records.produce(kafka, name, partitions, lines, read, key_function)
        except KeyboardInterrupt:
            note("stopped: all of the records were sent, or none")
            raise
    say(f"sent {counted(sent, 'record')} to {name}")


def consume(
    name: Name,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="begin with the oldest record; default: with the next one")
    ] = False,
    count: Annotated[int | None, typer.Option(min=1, help="end after so many records; default: Ctrl-C ends it")] = None,
    idle: Annotated[
        str | None,
        typer.Option("--idle", help="end when no record has come for this time: 30s, 5m; with --count in exit code 3"),
    ] = None,
    whole: Whole = False,
    as_base64: AsBase64 = False,
    cluster: Cluster = None,
) -> None:
    """Print the committed records of a topic as JSON lines, or as base64 for `topics produce --format base64`.

    For a dead letter the line shows the topic, partition and offset of its record, the reason, the key and the value.
    Bytes that are not valid text are shown as \\xff.
    Records of one partition come in their order. The time of --idle begins when the end of the topic is reached.
    Without --from-beginning only records count that come after the command has begun.
    """
    seconds = None if idle is None else duration_seconds(idle, field="idle")
    found = records.consume(_kafka(cluster), name, from_beginning=from_beginning, count=count, idle_seconds=seconds)
    line = records.record_line if whole else records.value_line
    has_printed = False
    try:
        for message in found:
            print(line(message, as_base64=as_base64), flush=True)
            has_printed = True
    except TimeoutError as error:
        if count is not None:
            raise
        if not has_printed:
            note(str(error))
    except KeyboardInterrupt:
        note("stopped")


def peek(
    name: Name,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=10_000, help="how many records")] = 10,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="the first records; default: the last ones")
    ] = False,
    whole: Whole = False,
    as_base64: AsBase64 = False,
    cluster: Cluster = None,
) -> None:
    """Print the last committed records of a topic by their time, or the first, and end. Nothing is committed.

    Each line looks as with `topics consume`.
    """
    line = records.record_line if whole else records.value_line
    for message in looks.peek(_kafka(cluster), name, count, from_beginning=from_beginning):
        print(line(message, as_base64=as_base64))


def _form(form: records.Format, columns: list[str], separator: str | None) -> records.Form:
    """Raises UserError for an option of another format."""
    if form == "json":
        if separator is not None:
            raise UserError("--separator is of raw and base64; of json, --key names columns", field="separator")
        return records.json_lines(columns)
    if columns:
        raise UserError(f"--key names columns of json; of {form}, --separator divides key and value", field="key")
    if separator == "":
        raise UserError("--separator is empty: say what is between key and value", field="separator", rule="not_empty")
    return records.plain_lines(separator, is_base64=form == "base64")


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM, and SIGHUP without `nohup`, end the body as Ctrl-C does: readers would wait for an open transaction."""
    numbers = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) != signal.SIG_IGN]
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _lines(file: Path | None) -> Iterator[IO[str]]:
    """The lines that are to be sent, in a file that can be read again."""
    if file is None:
        if sys.stdin.isatty():
            note("type a record in each line; Ctrl-D sends all of them, Ctrl-C none")
        with tempfile.SpooledTemporaryFile(_MOST_IN_MEMORY, "w+", encoding="utf-8") as kept:
            shutil.copyfileobj(sys.stdin, kept)
            kept.seek(0)
            yield kept
        return
    if not file.is_file():
        raise UserError(f"there is no file {file}: name one with a record in each line", field="file", rule="known")
    with opened(file) as stream:
        yield stream


def _kafka(cluster: str | None) -> Kafka:
    return CliKafkaSettings.read().kafka(cluster)
