"""A job as companies have them: a secured broker, a schema registry, a library of its own, a Delta table that is
merged, and checkpoints on S3. Its hosts are killed, its size changes, and another job begins with its savepoint."""

from __future__ import annotations

import io
import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AclOperation, ResourceType

from penstock.config.model import JobConfig
from penstock.control.process import wait_until
from penstock.spark import dependencies
from penstock.spark.packages import pack
from penstock.spark.settings import SparkSettings
from penstock.tasks.host_request import HostRequest
from penstock.tasks.redistribution import Layout, RedistributionRequest, SavepointName
from penstock.tasks.savepoint import SavepointRequest
from penstock.tasks.spec import TaskSpec, key_group_ranges
from tests.support.kafka.avro import framed, number, record, text
from tests.support.kafka.registry import PASSWORD, USERNAME, SmallRegistry, small_registry
from tests.support.kafka.secured import SecuredKafka, settings_of
from tests.support.s3.jars import s3_jars
from tests.support.s3.server import LOGIN, CutOff, Store, s3_server_and_login
from tests.support.spark.environments import in_environment
from tests.support.spark.hosts import Supervisor, run_host_task, running_host, settings_for, task_spec
from tests.support.spark.wheels import wheel

pytestmark = pytest.mark.long
PATIENCE_S = 300.0
PARTITIONS, KEYS = 6, 40
ITEM, CENTS, SHOP = ("item", "string"), ("cents", "long"), ("shop", "string")
WRITERS = (record(ITEM, CENTS), record(SHOP, ITEM, CENTS))
READER = record(ITEM, CENTS, SHOP, shop="here")
QUERY = """
from pyspark.sql import functions as F
from taxes import with_tax

def totals(session, inputs, args):
    taxed = F.udf(with_tax, "long")
    orders = inputs["orders"].select("item", taxed("cents").alias("cents"), "shop")
    found = (F.count("*").alias("orders"), F.sum("cents").alias("cents"), F.max("shop").alias("shop"))
    return orders.groupBy("item").agg(*found)
"""


@dataclass
class Orders:
    """Writes orders, of two schemas in turn, and knows what there is of each partition and item."""

    broker: SecuredKafka
    schemas: tuple[int, int]
    in_partition: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    totals: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    count: int = 0

    def add(self, orders: int) -> None:
        producer = Producer(self.broker.by_administrator.client_settings() | {"partitioner": "murmur2_random"})
        for _ in range(orders):
            n, self.count = self.count, self.count + 1
            is_newer = n // KEYS % 2  # each item comes with both schemas
            item, cents, shop = f"item{n * 7 % KEYS}", n * 100, f"shop{n % 3}" if is_newer else "here"
            fields = (text(item), number(cents))
            value = framed(self.schemas[1], text(shop), *fields) if is_newer else framed(self.schemas[0], *fields)
            producer.produce("orders", key=item, value=value, on_delivery=self._taken)
            before = self.totals.get(item, (0, 0, ""))
            self.totals[item] = (before[0] + 1, before[1] + cents * 119 // 100, max(before[2], shop))
        assert producer.flush(30) == 0

    def _taken(self, error: Any, message: Message) -> None:
        assert error is None
        self.in_partition[message.partition()] += 1

    def of(self, spec: TaskSpec) -> int:
        """The records in the partitions of a task."""
        return sum(self.in_partition[group] for group in spec.key_groups.members())


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with s3_server_and_login(monkeypatch, "data") as server:
        yield server


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    with small_registry() as found:
        yield found


@pytest.fixture
def broker(servers_dir: Path) -> Iterator[SecuredKafka]:
    """The user `bob` has the rights that the README of `penstock.kafka` names for a job without a Kafka output."""
    with SecuredKafka(servers_dir / "whole", {}) as server:
        server.add_user("bob", PASSWORD)
        server.make_topic("orders", PARTITIONS)
        server.allow("bob", ResourceType.TOPIC, "orders", AclOperation.READ, AclOperation.DESCRIBE)
        letters = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
        for job in ("sales", "copy"):
            server.allow("bob", ResourceType.TOPIC, f"{job}.dead-letters", *letters)
        server.allow("bob", ResourceType.GROUP, "penstock-", AclOperation.READ, AclOperation.DESCRIBE)
        rights = (AclOperation.WRITE, AclOperation.DESCRIBE)
        server.allow("bob", ResourceType.TRANSACTIONAL_ID, "penstock-", *rights)
        yield server


@pytest.fixture
def settings(broker: SecuredKafka, registry: SmallRegistry, store: Store, tmp_path: Path) -> SparkSettings:
    s3_jars()
    (tmp_path / "registry").write_text(PASSWORD)
    made = settings_for(
        tmp_path,
        broker.bootstrap,
        path_roots=("s3a://data/out",),
        spark_conf=store.spark_conf(),
        host_environment=tuple(LOGIN),
        boundary_wait_seconds=0.0,
        schema_registry_url=registry.url,
        schema_registry_username=USERNAME,
        schema_registry_password_file=tmp_path / "registry",
        **settings_of(broker.as_user("bob", PASSWORD), tmp_path),
    )
    return made.model_copy(update={"checkpoint_root": "s3a://data/checkpoints"})


@pytest.fixture
def package(settings: SparkSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Packs the query with the wheel it needs; its digest."""
    (wheels := tmp_path / "wheels").mkdir()
    (source := tmp_path / "source").mkdir()
    wheel(wheels, "taxes", "1.0", {"taxes.py": b"def with_tax(cents):\n    return cents * 119 // 100\n"})
    (source / "sales.py").write_text(QUERY)
    (tmp_path / "requirements.txt").write_text("taxes\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    with dependencies.resolved(tmp_path / "requirements.txt") as site:
        _, digest = pack(source, "sales", "1", settings.packages_root, dependencies.entries(site))
    return digest


def config_of(package: str, table: str) -> JobConfig:
    source = {
        "topic": "orders",
        "key_groups": PARTITIONS,
        "key_function": "kafka",
        "key_columns": ["item"],
        "format": "avro",
        "value_schema": READER,
        "schema_registry": True,
        "max_records_per_trigger": 60,
    }
    return JobConfig.model_validate(
        {
            "inputs": {"orders": source},
            "query": {"python": "sales:totals"},
            "package": {"name": "sales", "version": "1", "digest": package},
            "output": {"type": "delta", "path": f"s3a://data/out/{table}", "upsert_columns": ["item"]},
            "output_mode": "update",
            "trigger_interval_seconds": 0.2,
            "task_count": 2,
        }
    )


def test_it_runs_exactly_through_kills_a_rescale_and_a_savepoint(
    settings: SparkSettings, package: str, store: Store, registry: SmallRegistry, broker: SecuredKafka, tmp_path: Path
) -> None:
    """1. A host is killed while a batch is merged into the table. 2. Another goes on, and the job becomes three tasks.
    3. It is saved while it runs, reads on, and its host is killed. 4. A third host reads on, and another job begins
    with the savepoint, as one task and with a table of its own. Both tables are what a sum in this process gives."""
    first, second = (registry.add("orders-value", schema) for schema in WRITERS)
    orders, config = Orders(broker, (first, second)), config_of(package, "totals")
    layout = Layout(generation=1, config=config, ranges=key_group_ranges(config))
    orders.add(200)
    settings = in_environment(settings, config.package.model_dump(), tmp_path)
    with running_host("one", settings, tmp_path) as host:
        held = _hold_commits(store, "totals", first=3)
        _start(host, "sales", layout, 1)
        wait_until(lambda: _more(orders, held), PATIENCE_S, "a merge under way", poll_s=0.5)
    store.before = lambda method, key: None
    with running_host("two", settings, tmp_path) as host:
        specs = _start(host, "sales", layout, 2)
        orders.add(100)
        _read_all(host, specs, orders)
        _stop(host, specs)
        assert table(store, "totals") == orders.totals
        wider = config.model_copy(update={"task_count": 3})
        rescaled = Layout(generation=2, config=wider, ranges=key_group_ranges(wider))
        _do(host, RedistributionRequest(job="sales", source=layout, target=rescaled))
        specs = _start(host, "sales", rescaled, 3)
        orders.add(100)
        _read_all(host, specs, orders)
        _do(host, SavepointRequest(job="sales", name="friday", number=1, layout=rescaled, earlier=()))
        orders.add(100)
        before = host.progress[specs[0].task_id].batch_id
        wait_until(lambda: host.progress[specs[0].task_id].batch_id > before, PATIENCE_S, "another batch")
    with running_host("three", settings, tmp_path) as host:
        specs = _start(host, "sales", rescaled, 4)
        single = config_of(package, "copied").model_copy(update={"task_count": 1})
        copied = Layout(generation=1, config=single, ranges=key_group_ranges(single))
        source = rescaled.model_copy(update={"savepoint": SavepointName(job="sales", name="friday")})
        _do(host, RedistributionRequest(job="copy", source=source, target=copied))
        orders.add(50)
        specs += _start(host, "copy", copied, 1)
        _read_all(host, specs, orders)
        _stop(host, specs)
    assert table(store, "totals") == orders.totals
    assert table(store, "copied") == orders.totals


def _more(orders: Orders, held: threading.Event) -> bool:
    orders.add(20)
    return held.is_set()


def _hold_commits(store: Store, name: str, first: int) -> threading.Event:
    """Commits of a Delta table from version `first` on never come to an end; the event says that one has begun."""
    begun = threading.Event()

    def hold(method: str, key: str) -> None:
        version = key.removeprefix(f"out/{name}/_delta_log/").removesuffix(".json")
        if method == "PUT" and version.isdecimal() and int(version) >= first:
            begun.set()
            wait_until(lambda: store.before is not hold, PATIENCE_S, "the host to be killed")
            raise CutOff

    store.before = hold
    return begun


def _start(host: Supervisor, job: str, layout: Layout, epoch: int) -> list[TaskSpec]:
    host.progress.clear()  # tasks of the generation before have the same names
    specs = [task_spec(job, layout.config, index, generation=layout.generation) for index in range(len(layout.ranges))]
    for spec in specs:
        reply = host.send_start(spec, epoch).result(PATIENCE_S)
        assert reply.ok, reply.error
    return specs


def _read_all(host: Supervisor, specs: list[TaskSpec], orders: Orders) -> None:
    for spec in specs:
        host.wait_for_records(spec.task_id, orders.of(spec), PATIENCE_S)


def _stop(host: Supervisor, specs: list[TaskSpec]) -> None:
    for spec in specs:
        stopped = host.stop(spec.task_id, finish_pending=True)
        assert stopped.ok, stopped.error


def _do(host: Supervisor, request: HostRequest) -> None:
    done = host.host.send(run_host_task(request)).result(PATIENCE_S)
    assert done.ok, done.error


def table(store: Store, name: str) -> dict[str, tuple[int, int, str]]:
    """The rows of a Delta table by item, by its log. Raises when an item has two rows."""
    files: set[str] = set()
    for entry in store.names("data", f"out/{name}/_delta_log/"):
        if entry.endswith(".json"):
            for line in store.buckets["data"][f"out/{name}/_delta_log/{entry}"].decode().splitlines():
                action = json.loads(line)
                files |= {action["add"]["path"]} if "add" in action else set()
                files -= {action["remove"]["path"]} if "remove" in action else set()
    rows = pd.concat([pd.read_parquet(io.BytesIO(store.buckets["data"][f"out/{name}/{path}"])) for path in files])
    assert rows["item"].is_unique
    return {row.item: (row.orders, row.cents, row.shop) for row in rows.itertuples()}
