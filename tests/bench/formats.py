"""Rows/s of each format beside bare Spark, and the price of TLS: `python -m tests.bench.formats [--rows 150000]
[--rounds 3]`.

Rows of five columns, none malformed, in Kafka; batch queries by Spark's own source and sink. Penstock and its peer read
or write the same rows in turns, `--rounds` times and once before it counts. Figures are medians.

in     a topic is read to nowhere. Penstock: as inputs of jobs are read, with the check for malformed records. Its peer:
       `from_json`, `from_csv`, `from_avro`. Bare Spark has no registry: its peer of `avro_registry_in` is `from_avro`
       with the writer's schema after the first five bytes. Its functions for Protobuf are in a jar that cannot be
       had: the peer of `protobuf_in` and `protobuf_out` does as they do, by Protobuf's own library
       (`tests/support/bench/java`). All must give the same rows
out    rows that Spark holds in memory are written to a topic. Penstock: the value as outputs of jobs have it. Its peer:
       `to_json`, `to_csv` and `to_avro` with Spark's own options; of `avro_registry_out` `to_avro` after five constant
       bytes. In `csv_out` the rows go to files of CSV, which the sink `files` has Spark write with its options, and its
       peer with Spark's own
tls    the JSON topic is read and written as jobs do, by clients of one broker with three listeners: PLAINTEXT, SSL with
       a certificate of the client (`tls`), SASL_SSL with SCRAM-SHA-512 (`sasl_ssl`)

`rows_ratio`: Penstock's rows/s by its peer's (aim >= 0.95); of `tls` and `sasl_ssl` those by PLAINTEXT's, when read;
`out_rows_ratio` when written. `rows` were read or written each time.

`from_avro` and `to_avro` are in a jar of their own, which is fetched once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro

from penstock.config.model import FilesOutput, Input, KafkaOutput
from penstock.kafka.access import Kafka
from penstock.local.topics import create_topics, list_topics
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks.files import write_options
from penstock.spark.sinks.kafka import records, value_of
from penstock.spark.sources import connection_options
from tests.bench.report import broker_and_session, finish, say
from tests.support.bench.kafka_rows import (
    PARTITIONS,
    SCHEMA,
    Cost,
    cost_of,
    costs_of,
    json_value,
    jvm_of,
    produce,
    read_to_nowhere,
    records_of,
    rows_of_a_job,
)
from tests.support.bench.row_formats import (
    AVRO_SCHEMA,
    FRAME_BYTES,
    PROTOBUF,
    BareProtobuf,
    add_spark_avro,
    avro_value,
    csv_value,
    framed_value,
    protobuf_value,
    read_by_spark,
)
from tests.support.bench.secured import PartlySecuredKafka
from tests.support.kafka.registry import SmallRegistry, small_registry
from tests.support.kafka.secured import settings_of
from tests.support.spark.session import unique

Prepared = Callable[[], None]
Figures = dict[str, float]
INPUTS: dict[str, dict[str, Any]] = {
    "json": {"value_schema": SCHEMA},
    "csv": {"format": "csv", "value_schema": SCHEMA},
    "avro": {"format": "avro", "value_schema": AVRO_SCHEMA},
    "avro_registry": {"format": "avro", "value_schema": AVRO_SCHEMA, "schema_registry": True},
    "protobuf": {"format": "protobuf", **PROTOBUF},
}
OUTPUTS: dict[str, dict[str, Any]] = {
    "json": {},
    "csv_value": {"value_format": "csv"},
    "avro": {"value_format": "avro"},
    "avro_registry": {"value_format": "avro", "schema_registry": True},
    "protobuf": {"value_format": "protobuf", **PROTOBUF},
}


@dataclass(frozen=True)
class Bench:
    """A session, and how much is measured."""

    session: SparkSession
    rows: int
    rounds: int

    def rates(self, what: str, ways: Mapping[str, Callable[[], Prepared]]) -> Figures:
        """Rows/s of each way. What a way gives is ready to run: only that counts."""
        jvm = jvm_of(self.session)

        def once(prepare: Callable[[], Prepared]) -> Cost:
            return cost_of(prepare(), jvm)

        costs = costs_of({name: partial(once, way) for name, way in ways.items()}, self.rounds)
        for name, each in costs.items():
            cpu = median(cost.cpu_s for cost in each) / self.rows * 1e6
            taken = ", ".join(f"{cost.seconds:.2f}" for cost in each)
            say(f"{what}: {name}: {taken} s for {self.rows:,} rows, {cpu:.1f} s of CPU a million")
        return {name: self.rows / median(cost.seconds for cost in each) for name, each in costs.items()}


@dataclass(frozen=True)
class Client:
    """One way to a broker. `options`: the same for Spark."""

    kafka: Kafka
    options: dict[str, str]

    def rows(self, session: SparkSession, topic: str, kind: str) -> DataFrame:
        """The rows of a topic as a job gets them."""
        source = Input(topic=topic, key_groups=PARTITIONS, **INPUTS[kind])
        return rows_of_a_job(session, source, self.options, self.kafka)

    def reading(self, session: SparkSession, topic: str, kind: str) -> Prepared:
        """Reads the rows as a job does."""
        return partial(read_to_nowhere, self.rows(session, topic, kind))

    def writing(self, frame: DataFrame, topic: str) -> Prepared:
        """Writes values by Spark's sink."""
        return frame.write.format("kafka").options(**self.options).option("topic", topic).save

    def values(self, frame: DataFrame, kind: str, topic: str = "values") -> DataFrame:
        """The records of rows, as a job makes them."""
        output = KafkaOutput(topic=topic, **OUTPUTS[kind])
        return records(frame, output, value_of(frame, output, self.kafka, registers=True))

    def writing_rows(self, frame: DataFrame, topic: str, kind: str) -> Prepared:
        """Writes rows as a job does."""
        return self.writing(self.values(frame, kind, topic), topic)


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with broker_and_session() as (kafka, session, folder):
        figures = measure(Bench(session, arguments.rows, arguments.rounds), kafka.bootstrap, folder)
    finish(figures)


def measure(bench: Bench, bootstrap: str, folder: Path) -> dict[str, Figures]:
    """All figures. Raises AssertionError where rows are missing, or Penstock's are not its peer's."""
    add_spark_avro(bench.session)
    with small_registry() as registry:
        client = client_of(Kafka(bootstrap, registry=registry.access), folder)
        bare = BareProtobuf(bench.session, folder)
        figures = read_in_each_format(bench, client, registry, bare) | written_in_each_format(bench, client, bare)
    figures["csv_out"] = written_to_files(bench, folder)
    with PartlySecuredKafka(folder / "secured") as broker:
        return figures | price_of_security(bench, broker, folder)


def client_of(kafka: Kafka, folder: Path) -> Client:
    """As the settings of a host have it; the files of what it logs in with go below `folder`."""
    own = folder / unique("login")
    own.mkdir()
    settings = SparkSettings(checkpoint_root="", kafka_bootstrap=kafka.bootstrap, **settings_of(kafka, own))
    return Client(kafka, connection_options(settings))


def read_in_each_format(
    bench: Bench, client: Client, registry: SmallRegistry, protobuf: BareProtobuf
) -> dict[str, Figures]:
    """A topic of each format, read by Penstock and by bare Spark."""
    schema = registry.add("events-value", AVRO_SCHEMA)
    values = {"json": json_value, "csv": csv_value, "avro": avro_value}
    values["avro_registry"] = partial(framed_value, schema=schema)
    values["protobuf"] = protobuf_value
    peers, figures = read_by_spark(protobuf), {}
    seen: set[Any] = set()
    for kind, value in values.items():
        topic = unique(kind)
        produce(client.kafka, topic, map(value, range(bench.rows)))
        figures[f"{kind}_in"] = _read(bench, client, topic, kind, peers[kind], seen)
    return figures


def _read(bench: Bench, client: Client, topic: str, kind: str, peer: Column, seen: set[Any]) -> Figures:
    """`seen`: what the other formats gave."""

    def bare() -> DataFrame:
        found = records_of(bench.session, topic, client.options)
        return found.select(peer.alias("row")).select("row.*")

    job = partial(client.rows, bench.session, topic, kind)
    count = whole_rows(job())
    seen |= {count, whole_rows(bare())}
    assert len(seen) == 1, f"{kind}: Penstock and Spark, or two formats, do not give the same rows"
    assert count.rows == bench.rows, f"{kind}: {count.rows} rows of {bench.rows} were read"
    rates = bench.rates(
        f"{kind}_in",
        {"penstock": lambda: partial(read_to_nowhere, job()), "spark": lambda: partial(read_to_nowhere, bare())},
    )
    return _against_spark(rates, count.rows)


def whole_rows(frame: DataFrame) -> Any:
    """How many rows have all their columns, and a sum of what is in them."""
    return frame.dropna().select(F.count("*").alias("rows"), F.bit_xor(F.xxhash64("*"))).first()


def written_in_each_format(bench: Bench, client: Client, protobuf: BareProtobuf) -> dict[str, Figures]:
    """Rows in memory, written by Penstock and by bare Spark."""
    frame = _rows_in_memory(bench)
    constant = F.lit(bytes(FRAME_BYTES))
    peers = {"json": F.to_json(F.struct("*")), "csv_value": F.to_csv(F.struct("*")), "avro": to_avro(F.struct("*"))}
    peers["avro_registry"] = F.concat(constant, peers["avro"])
    peers["protobuf"] = protobuf.encoded(F.struct("*"))
    made = {kind: frame.select(peer.alias("value")) for kind, peer in peers.items()}
    assert made["protobuf"].exceptAll(client.values(frame, "protobuf").select("value")).isEmpty()
    figures = {}
    for kind, bare in made.items():
        ours, theirs = _new_topic(client), _new_topic(client)
        rates = bench.rates(
            f"{kind}_out",
            {
                "penstock": partial(client.writing_rows, frame, ours, kind),
                "spark": partial(client.writing, bare, theirs),
            },
        )
        figures[f"{kind}_out"] = _against_spark(rates, _written(bench, client.kafka, ours, theirs))
    frame.unpersist()
    return figures


def written_to_files(bench: Bench, folder: Path) -> Figures:
    """Rows in memory to files of CSV."""
    frame = _rows_in_memory(bench)
    paths = {name: str(folder / f"csv-{name}") for name in ("penstock", "spark")}
    options = {
        "penstock": write_options(FilesOutput(path=paths["penstock"], format="csv")),
        "spark": {"header": "true"},
    }

    def writing(name: str) -> Prepared:
        write = frame.write.format("csv").mode("overwrite").options(**options[name])
        return partial(write.save, paths[name])

    rates = bench.rates("csv_out", {name: partial(writing, name) for name in paths})
    frame.unpersist()
    found = {whole_rows(bench.session.read.csv(path, SCHEMA, header=True)) for path in paths.values()}
    assert [each.rows for each in found] == [bench.rows], f"the files do not have the same rows: {found}"
    return _against_spark(rates, bench.rows)


def price_of_security(bench: Bench, broker: PartlySecuredKafka, folder: Path) -> dict[str, Figures]:
    """The same rows by each way to the broker."""
    clients = {name: client_of(kafka, folder) for name, kafka in broker.ways("secured").items()}
    topics = {name: unique(f"secured-{name}") for name in clients}
    topic, plain = unique("secured"), clients["plaintext"].kafka
    produce(plain, topic, map(json_value, range(bench.rows)))
    create_topics(plain, dict.fromkeys(topics.values(), PARTITIONS))
    seen = {whole_rows(client.rows(bench.session, topic, "json")) for client in clients.values()}
    assert len(seen) == 1, f"not all clients read the same rows: {seen}"
    read = bench.rates(
        "secured in", {name: partial(each.reading, bench.session, topic, "json") for name, each in clients.items()}
    )
    write = _written_by_each(bench, clients, topics)
    rows = min(seen.pop().rows, _written(bench, plain, *topics.values()))
    return {name: _against_plaintext(name, read, write, rows) for name in clients if name != "plaintext"}


def _written_by_each(bench: Bench, clients: Mapping[str, Client], topics: Mapping[str, str]) -> Figures:
    frame = _rows_in_memory(bench)
    ways = {name: partial(each.writing_rows, frame, topics[name], "json") for name, each in clients.items()}
    rates = bench.rates("secured out", ways)
    frame.unpersist()
    return rates


def _against_plaintext(name: str, read: Figures, write: Figures, rows: int) -> Figures:
    return {
        "rows_ratio": read[name] / read["plaintext"],
        "rows_per_s": read[name],
        "plaintext_rows_per_s": read["plaintext"],
        "out_rows_ratio": write[name] / write["plaintext"],
        "out_rows_per_s": write[name],
        "out_plaintext_rows_per_s": write["plaintext"],
        "rows": rows,
    }


def _against_spark(rates: Figures, rows: int) -> Figures:
    ours, theirs = rates["penstock"], rates["spark"]
    return {"rows_ratio": ours / theirs, "rows_per_s": ours, "spark_rows_per_s": theirs, "rows": rows}


def _rows_in_memory(bench: Bench) -> DataFrame:
    """The rows as a job has them once they are decoded: each column may be null."""
    numbers = bench.session.range(0, bench.rows, 1, PARTITIONS)
    line = F.concat_ws(
        ",", "id", F.lit("JFK"), F.concat(F.lit("C"), F.col("id") % 20), F.lit("2026-01-01T00:00:00Z,1.5")
    )
    frame = numbers.select(F.from_csv(line, SCHEMA).alias("row")).select("row.*").persist()
    assert frame.count() == bench.rows
    return frame


def _new_topic(client: Client) -> str:
    name = unique("written")
    create_topics(client.kafka, {name: PARTITIONS})
    return name


def _written(bench: Bench, kafka: Kafka, *names: str) -> int:
    """How many rows each topic got each time."""
    offsets = {facts.name: facts.offsets for facts in list_topics(kafka)}
    found = {name: offsets[name] for name in names}
    assert set(found.values()) == {bench.rows * (bench.rounds + 1)}, f"not all rows were written: {found}"
    return bench.rows


if __name__ == "__main__":
    main()
