"""The Postgres sink: exactly once, whatever happens between its transaction and the checkpoint's commit."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from typing import IO, Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.config.model import PostgresOutput
from penstock.control.errors import BrokenCheckpoint, BrokenTask, Unavailable
from penstock.spark.failures import failure_of
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks import writer
from penstock.spark.sinks.batch_marker import Marker
from penstock.spark.sinks.postgres import PostgresSink
from penstock.spark.sinks.postgres_connections import ConnectionPool, pool_of
from penstock.spark.sinks.postgres_target import MarkerKey, Target
from tests.support.spark.session import DELAYS, Feed, delays, forget_last_commit, run_to_end, sink_task

_APPEND = PostgresOutput(table="flights")
_UPSERT = PostgresOutput(table="delays", upsert_columns=("dest",))
_MARKERS = "SELECT task_index, batch_id, rows FROM penstock_batches ORDER BY task_index"


class Store:
    """A database of the test's own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.settings = SparkSettings(checkpoint_root="", kafka_bootstrap="127.0.0.1:1", connections={"default": url})

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query, or none of a statement."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []


@pytest.fixture
def store(empty_database_url: str) -> Iterator[Store]:
    yield Store(empty_database_url)
    pool_of(empty_database_url).close()


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return delays(tmp_path / "feed")


@pytest.fixture
def make_sink(store: Store) -> Iterator[Callable[..., PostgresSink]]:
    """Sinks of task 0 without Spark, each with connections of its own, as in a process of its own."""
    pools: list[ConnectionPool] = []

    def make(upsert: tuple[str, ...] = ("dest",), options: str = "") -> PostgresSink:
        pools.append(ConnectionPool(make_conninfo(store.url, options=options)))
        target = Target("delays", {"dest": "text", "delay": "bigint"}, upsert)
        sink = PostgresSink(pools[-1], target, MarkerKey("job", 0, 1), line=None)
        sink.prepare()
        return sink

    yield make
    for pool in pools:
        pool.close()


class TestReplay:
    def test_appended_rows_are_there_once(self, spark: SparkSession, feed: Feed, store: Store, tmp_path: Path) -> None:
        spec, checkpoint = sink_task(_APPEND), tmp_path / "checkpoint"
        run_to_end(writer(feed.frame(spark), spec, store.settings), checkpoint)
        assert forget_last_commit(checkpoint) == 1
        run_to_end(writer(feed.frame(spark), spec, store.settings), checkpoint)
        assert store.ask("SELECT dest, count(*) FROM flights GROUP BY 1 ORDER BY 1") == [("A", 4), ("B", 2), ("C", 2)]
        assert store.ask(_MARKERS) == [(0, 1, 4)]

    def test_state_goes_on_after_a_batch_that_was_skipped(
        self, spark: SparkSession, feed: Feed, store: Store, tmp_path: Path
    ) -> None:
        """A skipped batch must still run in Spark, or the next one would not find its state."""
        spec, checkpoint = sink_task(_UPSERT, output_mode="update"), tmp_path / "checkpoint"
        sums = feed.frame(spark).groupBy("dest").sum("delay").withColumnRenamed("sum(delay)", "delay")
        run_to_end(writer(sums, spec, store.settings), checkpoint)
        forget_last_commit(checkpoint)
        for version in (checkpoint / "state").rglob("2.delta"):
            version.unlink()
        run_to_end(writer(sums, spec, store.settings), checkpoint)
        feed.add(DELAYS)
        run_to_end(writer(sums, spec, store.settings), checkpoint)
        assert store.ask("SELECT dest, delay FROM delays ORDER BY 1") == [("A", 6), ("B", 3), ("C", 9)]
        assert store.ask(_MARKERS) == [(0, 2, 3)]

    def test_a_checkpoint_that_was_reset_fails_loudly(
        self, spark: SparkSession, feed: Feed, store: Store, tmp_path: Path
    ) -> None:
        run_to_end(writer(feed.frame(spark), sink_task(_APPEND), store.settings), tmp_path / "one")
        with pytest.raises(StreamingQueryException, match=r"penstock\.control\.errors\.BrokenCheckpoint: .* replaced"):
            run_to_end(writer(feed.frame(spark), sink_task(_APPEND), store.settings), tmp_path / "two")
        run_to_end(writer(feed.frame(spark), sink_task(_APPEND, generation=2), store.settings), tmp_path / "three")
        assert store.ask("SELECT count(*) FROM flights") == [(16,)]

    def test_a_database_that_went_back_fails_loudly(self, make_sink: Callable[..., PostgresSink]) -> None:
        sink = make_sink()
        sink.store(_lines(("A", 1)), Marker(3, "query"))
        with pytest.raises(BrokenCheckpoint, match="the database went back"):
            sink.store(_lines(("A", 2)), Marker(5, "query"))
        with pytest.raises(BrokenCheckpoint, match="the checkpoint went back"):
            sink.store(_lines(("A", 2)), Marker(2, "query"))


class TestTwoAtOnce:
    def test_tasks_create_one_table_at_once(
        self, spark: SparkSession, feed: Feed, store: Store, tmp_path: Path
    ) -> None:
        barrier = Barrier(4)

        def run(index: int) -> None:
            frame = feed.frame(spark.newSession())
            barrier.wait(30)
            spec = sink_task(_APPEND, index=index, task_count=4)
            run_to_end(writer(frame, spec, store.settings), tmp_path / f"checkpoint-{index}")

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(run, range(4)))
        assert store.ask("SELECT count(*) FROM flights") == [(32,)]
        assert store.ask(_MARKERS) == [(index, 1, 4) for index in range(4)]

    @pytest.mark.parametrize("upsert", [(), ("dest",)])
    def test_zombie_and_successor_write_a_batch_once(
        self, make_sink: Callable[..., PostgresSink], store: Store, upsert: tuple[str, ...]
    ) -> None:
        sinks = [make_sink(upsert) for _ in range(2)]
        with ThreadPoolExecutor(2) as threads:
            for batch_id in range(50):
                barrier = Barrier(2)

                def write(sink: PostgresSink, batch_id: int = batch_id, barrier: Barrier = barrier) -> bool:
                    barrier.wait(30)
                    return sink.store(_lines((f"dest-{batch_id}", 1)), Marker(batch_id, "query"))

                assert {*threads.map(write, sinks)} == {True, False}
        assert store.ask("SELECT count(*), count(DISTINCT dest), sum(delay) FROM delays") == [(50, 50, 50)]

    def test_zombie_stopped_while_it_sends_rows_holds_nobody_up(
        self, make_sink: Callable[..., PostgresSink], store: Store
    ) -> None:
        """1. The zombie stops in the middle of its rows. 2. The successor writes the batch and the next one.
        3. The zombie goes on: its batch is refused, and nothing of it is seen."""
        zombie, successor = make_sink(()), make_sink(())
        rows = StoppingRows([("Z", 1)])
        with ThreadPoolExecutor(1) as thread:
            stopped = thread.submit(zombie.store, rows, Marker(0, "query"))
            assert rows.reached.wait(30)
            assert successor.store(_lines(("S", 1)), Marker(0, "query"))
            assert successor.store(_lines(("T", 1)), Marker(1, "query"))
            rows.go_on.set()
            with pytest.raises(BrokenCheckpoint, match="the checkpoint went back"):
                stopped.result(30)
        assert store.ask("SELECT dest FROM delays ORDER BY 1") == [("S",), ("T",)]

    def test_a_lock_that_is_held_too_long_is_retryable(
        self, make_sink: Callable[..., PostgresSink], store: Store
    ) -> None:
        sink = make_sink(options="-c lock_timeout=100")
        sink.store(_lines(("A", 1)), Marker(0, "query"))
        with psycopg.connect(store.url) as holder:
            holder.execute("SELECT 1 FROM penstock_batches FOR UPDATE")
            with pytest.raises(Unavailable, match="lock timeout"):
                sink.store(_lines(("A", 2)), Marker(1, "query"))
        assert sink.store(_lines(("A", 2)), Marker(1, "query"))


class TestFailures:
    def test_a_batch_that_fails_leaves_nothing_and_is_repeated(
        self, spark: SparkSession, feed: Feed, store: Store, tmp_path: Path
    ) -> None:
        store.ask("CREATE TABLE flights (dest text, delay bigint CHECK (delay < 10))")
        feed.add([{"dest": "D", "delay": 9}, {"dest": "D", "delay": 10}])
        checkpoint = tmp_path / "checkpoint"
        with pytest.raises(StreamingQueryException, match=r"errors\.BrokenTask: postgres refuses: .* check constraint"):
            run_to_end(writer(feed.frame(spark), sink_task(_APPEND), store.settings), checkpoint)
        assert store.ask("SELECT count(*) FROM flights WHERE dest = 'D'") == [(0,)]
        assert store.ask(_MARKERS) == [(0, 1, 4)]
        store.ask("ALTER TABLE flights DROP CONSTRAINT flights_delay_check")
        run_to_end(writer(feed.frame(spark), sink_task(_APPEND), store.settings), checkpoint)
        assert store.ask("SELECT delay FROM flights WHERE dest = 'D' ORDER BY 1") == [(9,), (10,)]

    @pytest.mark.parametrize(
        ("rows", "words"),
        [
            ([("A", 1), ("A", 2)], "two rows of one batch have the same key"),
            ([("\\N", 1)], 'null value in column "dest"'),
            ([("A", "x")], "invalid input syntax for type bigint"),
            ([("A\x00", 1)], r"the column dest of a row has the character NUL.*replace\(dest, chr\(0\)"),
        ],
    )
    def test_rows_that_do_not_fit_break_the_task(
        self, make_sink: Callable[..., PostgresSink], store: Store, rows: list[tuple[str, Any]], words: str
    ) -> None:
        sink = make_sink()
        with pytest.raises(BrokenTask, match=words):
            sink.store(_lines(("B", 0), *rows), Marker(0, "query"))
        assert store.ask("SELECT * FROM delays") == store.ask(_MARKERS) == []
        assert sink.store(_lines(("B", 0)), Marker(0, "query"))

    def test_a_connection_that_breaks_is_retryable_and_replaced(
        self, make_sink: Callable[..., PostgresSink], store: Store
    ) -> None:
        """1. The server ends the connection in mid-batch. 2. It ends it while it is idle: nobody notices."""
        sink = make_sink()
        rows = StoppingRows([("A", 1)])
        with ThreadPoolExecutor(1) as thread:
            broken = thread.submit(sink.store, rows, Marker(0, "query"))
            assert rows.reached.wait(30)
            _end_sessions(store)
            rows.go_on.set()
            with pytest.raises(Unavailable, match="postgres cannot serve the sink now"):
                broken.result(30)
        assert sink.store(_lines(("A", 1)), Marker(0, "query"))
        _end_sessions(store)
        assert sink.store(_lines(("A", 2)), Marker(1, "query"))
        assert store.ask("SELECT dest, delay FROM delays") == [("A", 2)]

    def test_a_batch_waits_for_a_connection_while_all_are_in_use(self, store: Store) -> None:
        """1. The only connection is in use: a batch gives up in time. 2. It is free again: the next batch gets it."""
        pool = ConnectionPool(store.url, most=1, wait_seconds=0.1)
        with pool.link(), pytest.raises(Unavailable, match="couldn't get a connection"), pool.link():
            pass
        with pool.link() as link:
            assert link.execute("SELECT 1").fetchone() == (1,)
        pool.close()

    def test_a_malformed_url_breaks_the_task_and_is_not_told(self, spark: SparkSession, feed: Feed) -> None:
        settings = SparkSettings(
            checkpoint_root="", kafka_bootstrap="", connections={"default": "postgresql://u:secret@[half"}
        )
        with pytest.raises(BrokenTask, match="malformed") as caught:
            writer(feed.frame(spark), sink_task(_APPEND), settings)
        assert "secret" not in str(caught.value)

    def test_no_server_is_retryable(self, spark: SparkSession, feed: Feed) -> None:
        settings = SparkSettings(
            checkpoint_root="", kafka_bootstrap="", connections={"default": "postgresql://127.0.0.1:1/none"}
        )
        with pytest.raises(Unavailable, match="postgres cannot serve the sink now"):
            writer(feed.frame(spark), sink_task(_APPEND), settings)


class TestChecksAtTheStart:
    @pytest.mark.parametrize(
        ("table", "output", "config", "words"),
        [
            ("", {"connection": "other"}, {}, "no connection other in its PENSTOCK_CONNECTIONS"),
            ("", {"upsert_columns": ("origin",)}, {}, "the rows have no column origin"),
            ("", {}, {"output_mode": "complete"}, "so output.upsert_columns is needed"),
            ("CREATE TABLE flights (dest text)", {}, {}, "the table flights has no column delay"),
            (
                "CREATE TABLE flights (dest text, delay bigint)",
                {"upsert_columns": ("dest",)},
                {},
                "no unique or exclusion constraint",
            ),
            ("", {"table": "mart.flights"}, {}, 'schema "mart" does not exist'),
        ],
    )
    def test_what_cannot_work_breaks_the_task(
        self, spark: SparkSession, feed: Feed, store: Store, table: str, output: Any, config: Any, words: str
    ) -> None:
        if table:
            store.ask(table)
        spec = sink_task(PostgresOutput(**{"table": "flights", **output}), **config)
        with pytest.raises(BrokenTask, match=words):
            writer(feed.frame(spark), spec, store.settings)

    def test_a_type_without_a_counterpart_breaks_the_task(self, spark: SparkSession, feed: Feed, store: Store) -> None:
        frame = feed.frame(spark).selectExpr("INTERVAL '1' DAY AS wait")
        with pytest.raises(BrokenTask, match="column wait of type interval day has no Postgres type"):
            writer(frame, sink_task(_APPEND), store.settings)

    def test_a_table_of_the_users_own_in_a_schema_is_used_as_it_is(
        self, spark: SparkSession, feed: Feed, store: Store, tmp_path: Path
    ) -> None:
        store.ask("CREATE SCHEMA mart")
        store.ask("CREATE TABLE mart.flights (id serial PRIMARY KEY, dest varchar(3) UNIQUE, delay smallint)")
        output = PostgresOutput(table="mart.flights", upsert_columns=("dest",))
        latest = feed.frame(spark).groupBy("dest").agg({"delay": "max"}).withColumnRenamed("max(delay)", "delay")
        spec = sink_task(output, output_mode="complete")
        run_to_end(writer(latest, spec, store.settings), tmp_path / "checkpoint")
        assert store.ask("SELECT dest, delay FROM mart.flights ORDER BY 1") == [("A", 2), ("B", 1), ("C", 3)]


class TestNested:
    """Arrays, maps and structs of a stream: as they were, or refused before a row is read."""

    schema = "id int, a array<string>, n array<array<int>>, m map<string,int>, s struct<x:int,l:array<string>>"

    def test_they_arrive_as_they_were(self, spark: SparkSession, store: Store, tmp_path: Path) -> None:
        """1. Appended, with nulls and empty ones. 2. Upserted from an aggregation that collects."""
        rows: list[dict[str, Any]] = [
            {"id": 1, "a": ["x", None, 'q"\\,{}'], "n": [[1], []], "m": {"k": 1, "n": None}, "s": {"x": 2, "l": ["y"]}},
            {"id": 2, "a": [], "n": [], "m": {}, "s": {"x": None, "l": None}},
            {"id": 3, "a": None, "n": None, "m": None, "s": None},
        ]
        feed = Feed(tmp_path / "nested", self.schema)
        feed.add(rows)
        frame = feed.frame(spark)
        run_to_end(writer(frame, sink_task(_APPEND), store.settings), tmp_path / "append")
        found = store.ask("SELECT to_jsonb(flights) FROM flights ORDER BY id")
        assert [row for (row,) in found] == rows
        assert store.ask("SELECT pg_typeof(a)::text, pg_typeof(m)::text FROM flights LIMIT 1") == [("text[]", "jsonb")]
        collected = frame.groupBy("id").agg({"a": "collect_list"}).toDF("dest", "delay")
        output = PostgresOutput(table="collected", upsert_columns=("dest",))
        spec = sink_task(output, output_mode="update", index=1, task_count=2)
        run_to_end(writer(collected, spec, store.settings), tmp_path / "update")
        found = store.ask("SELECT dest, delay FROM collected ORDER BY dest")
        assert found == [(1, [rows[0]["a"]]), (2, [[]]), (3, [])]

    @pytest.mark.parametrize(
        ("column", "words"),
        [
            (
                "a jsonb",
                r"the column a of the table flights is jsonb, and the query's would be text\[\]: write to_json",
            ),
            ("a text", "the column a of the table flights is text"),
            ("m text[]", r"the column m of the table flights is text\[\], .* give the column the type jsonb"),
            ("m hstore_like", "the column m .* give the column the type jsonb"),
        ],
    )
    def test_a_column_that_would_read_them_as_something_else_is_refused(
        self, spark: SparkSession, store: Store, tmp_path: Path, column: str, words: str
    ) -> None:
        """An empty array, `{}`, would be an empty object."""
        store.ask("CREATE DOMAIN hstore_like AS bytea")
        store.ask(f"CREATE TABLE flights ({column})")
        feed = Feed(tmp_path / "nested", self.schema)
        feed.add([{"id": 1}])
        with pytest.raises(BrokenTask, match=words):
            writer(feed.frame(spark).select(column.split()[0]), sink_task(_APPEND), store.settings)


class StoppingRows(io.BytesIO):
    """COPY text that stops after its first chunk, as a process that got SIGSTOP does."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        super().__init__(_lines(*rows).read())
        self.reached, self.go_on = Event(), Event()

    def read(self, size: int | None = -1, /) -> bytes:
        chunk = super().read(size)
        if not chunk:
            self.reached.set()
            assert self.go_on.wait(30)
        return chunk


def _lines(*rows: tuple[Any, ...]) -> IO[bytes]:
    return io.BytesIO("".join("\t".join(map(str, row)) + "\n" for row in rows).encode())


def _end_sessions(store: Store) -> None:
    ended = store.ask(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'penstock'"
    )
    assert ended
    assert all(done for (done,) in ended)


def test_the_error_of_a_batch_can_be_read_from_the_querys(
    spark: SparkSession, feed: Feed, store: Store, tmp_path: Path
) -> None:
    """1. What the sink raises is told by its class in the traceback in the query's error. 2. So is what Spark throws
    while the sink has it run the query."""
    query = writer(feed.frame(spark), sink_task(_APPEND), store.settings)
    store.ask("DROP TABLE penstock_batches")
    with pytest.raises(StreamingQueryException) as caught:
        run_to_end(query, tmp_path / "checkpoint")
    assert re.findall(r"^penstock\.control\.errors\.(\w+): ", str(caught.value), re.MULTILINE) == ["BrokenTask"]
    cast = feed.frame(spark).selectExpr("dest", "CAST(concat('item-', dest) AS BIGINT) AS delay")
    with pytest.raises(StreamingQueryException) as caught:
        run_to_end(writer(cast, sink_task(_APPEND), store.settings), tmp_path / "other")
    failure = failure_of(caught.value)
    assert failure.error.startswith("[CAST_INVALID_INPUT] The value 'item-A'")
    assert failure.error_kind == "broken_task"
