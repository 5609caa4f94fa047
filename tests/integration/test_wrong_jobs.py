"""Wrong jobs (`tests.support.spark`: `wrong_jobs`, `wrong_queries`): each is caught before a task runs, and why."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from penstock.config.keygroups import KeyGroupRange
from penstock.config.merge import apply_merge_patch
from penstock.config.model import JobConfig
from penstock.config.problems import Problem
from penstock.config.validate import check_merged
from penstock.control.errors import BrokenTask, InvalidConfig
from penstock.local.kafka import EmbeddedKafka
from penstock.spark import tables
from penstock.spark.analysis.analyse import analyse
from penstock.spark.analysis.placement import placement
from penstock.spark.packages import pack
from penstock.spark.query import result_of
from penstock.spark.settings import SparkSettings
from penstock.spark.sources import read_input
from penstock.spark.task import Runtime, make_frame
from penstock.tasks.analysis import MAY_COME_LATER, Operator
from penstock.tasks.spec import TaskSpec, key_group_ranges
from tests.support import spark as support
from tests.support.config.jobs import FLIGHTS, job
from tests.support.kafka.acls import denied
from tests.support.spark.session import unique
from tests.support.spark.several_tasks import APART, INPUTS, TOGETHER
from tests.support.spark.wrong_jobs import RULES, UPDATE, WrongJob, python, right_job, sql
from tests.support.spark.wrong_queries import RIGHT, SPARK
from tests.support.store.granted import TABLE, lent_database

PLAN = re.compile(r"\+- |'Project|Relation|\tat |SQLSTATE|JVM stacktrace|jvmId")


@pytest.fixture(scope="module")
def settings(kafka: EmbeddedKafka, postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> SparkSettings:
    """What a host has: Kafka with a topic of three partitions, Postgres with a narrow table, the package."""
    folder = tmp_path_factory.mktemp("wrong")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(10)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS narrow; CREATE TABLE narrow (dest text)")
    pack(Path(support.__file__).parent / "wrong_package", "wrong", "1", folder / "packages")
    return SparkSettings(
        checkpoint_root=str(folder),
        kafka_bootstrap=kafka.bootstrap,
        connections={"default": postgres_url},
        packages_root=folder / "packages",
        path_roots=("/", "s4://bucket"),
    )


TOPIC = unique("three")


def changed(change: dict[str, Any], settings: SparkSettings) -> dict[str, Any]:
    """The right job with a change. `{topic}` and `{folder}` are this run's."""
    merged = json.dumps(apply_merge_patch(right_job(), change))
    found: dict[str, Any] = json.loads(merged.replace("{topic}", TOPIC).replace("{folder}", settings.checkpoint_root))
    return found


def told(wrong: WrongJob, problems: list[Problem]) -> str:
    """What is told of the problem that the table names; no plan and no stack is in any."""
    assert all(PLAN.search(problem.detail) is None for problem in problems), problems
    found = {(problem.field, problem.rule): problem.detail for problem in problems}
    assert (wrong.field, wrong.rule) in found, problems
    return found[wrong.field, wrong.rule]


def test_the_table_is_long_enough() -> None:
    assert len(RULES) + len(SPARK) >= 60
    assert len({wrong.name for wrong in RULES + SPARK}) == len(RULES + SPARK)
    assert [wrong.name for wrong in RULES + SPARK if not wrong.text] == []


@pytest.mark.parametrize("wrong", RULES, ids=lambda wrong: wrong.name)
def test_caught_by_the_rules_of_a_write(wrong: WrongJob) -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_merged(apply_merge_patch(right_job(), wrong.change))
    problems = [Problem(**error) for error in refused.value.extra["errors"]]
    assert wrong.text in told(wrong, problems)


@pytest.mark.parametrize("wrong", SPARK, ids=lambda wrong: wrong.name)
def test_caught_by_the_analysis(wrong: WrongJob, spark: SparkSession, settings: SparkSettings) -> None:
    config = check_merged(changed(wrong.change, settings))
    found = analyse(spark, settings, "wrong", config)
    assert wrong.text in told(wrong, found.problems)
    assert not found.unchecked


@pytest.mark.parametrize(("change", "operators"), [right[1:] for right in RIGHT], ids=[name for name, _, _ in RIGHT])
def test_a_right_job_has_no_problem(
    change: dict[str, Any], operators: list[Operator], spark: SparkSession, settings: SparkSettings
) -> None:
    found = analyse(spark, settings, "wrong", check_merged(changed(change, settings)))
    # The topics of the table do not exist, which another job may end.
    assert ([p for p in found.problems if p.rule not in MAY_COME_LATER], found.unchecked) == ([], [])
    report = found.report()
    assert report.columns
    assert list(report.operators) == operators


def test_an_analysis_reads_the_lines_of_a_table_once(
    spark: SparkSession, settings: SparkSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    monkeypatch.setattr(tables, "_first_malformed", lambda *given: read.append(given[2].inputFiles()))
    path = Path(settings.checkpoint_root) / "once.csv"
    path.write_text("carrier,seats\nAA,3\n")
    table = {"path": str(path), "format": "csv", "table_schema": "carrier STRING, seats INT"}
    analyse(spark, settings, "wrong", check_merged(changed({"tables": {"once": table}}, settings)))
    assert read == [[path.as_uri()]]


UNSEEN_BY_THE_RULES = ("a join of INT and BIGINT", "Python by another key")


@pytest.mark.parametrize("wrong", [wrong for wrong in SPARK if wrong.name in UNSEEN_BY_THE_RULES])
def test_a_task_that_would_give_wrong_numbers_does_not_start(
    wrong: WrongJob, spark: SparkSession, settings: SparkSettings
) -> None:
    config = check_merged(changed(wrong.change, settings))
    runtime = Runtime(spark, settings, holder="test")
    for task_count in (4, 4, 2):
        several = config.model_copy(update={"task_count": task_count})
        part = key_group_ranges(several)[1]
        spec = TaskSpec(job="j", index=1, revision=1, generation=1, restarts=0, key_groups=part, config=several)
        with pytest.raises(BrokenTask, match="not sure to be in one task"):
            make_frame(runtime, spec, checkpoint="", token="")
    alone = spec.model_copy(update={"config": config.model_copy(update={"task_count": 1}), "index": 0})
    assert make_frame(runtime, alone, checkpoint="", token="").frame.isStreaming


def test_what_a_broker_denies_is_told(spark: SparkSession, settings: SparkSettings) -> None:
    """1. All is allowed. 2. The account may not read the input. 3. It may not write the output."""
    source = {"inputs": {"flights": {"topic": TOPIC, "key_groups": 3}}}
    reading, writing = (
        check_merged(changed(source, settings)),
        check_merged(changed({"output": {"topic": TOPIC}}, settings)),
    )
    assert analyse(spark, settings, "wrong", reading).problems == []
    for config, operation, field in (
        (reading, AclOperation.READ, "inputs.flights.topic"),
        (reading, AclOperation.DESCRIBE, "inputs.flights.topic"),
        (writing, AclOperation.WRITE, "output.topic"),
    ):
        with denied(settings.kafka_bootstrap, ResourceType.TOPIC, TOPIC, operation):
            found = {problem.field: problem for problem in analyse(spark, settings, "wrong", config).problems}
        assert found[field].rule == ("topic_writable" if config is writing else "topic_readable")
        assert f"account may not {'write' if config is writing else 'read'} the topic {TOPIC}" in found[field].detail


def test_what_postgres_denies_is_told(spark: SparkSession, settings: SparkSettings, postgres_url: str) -> None:
    """1. The account may not insert into the table: told with the rights that it needs. 2. It may: nothing is told."""
    output = {"type": "postgres", "table": TABLE, "topic": None}
    config = check_merged(changed(sql("SELECT dest, carrier FROM flights", output=output), settings))
    with lent_database(postgres_url) as lent:
        as_guest = settings.model_copy(update={"connections": {"default": lent.guest}})
        (problem,) = [each for each in analyse(spark, as_guest, "wrong", config).problems if each.field == "output"]
        assert problem.rule == "table_writable"
        assert f"permission denied for table {TABLE}. The account of the connection needs INSERT" in problem.detail
        lent.grant("INSERT", f"TABLE {TABLE}")
        assert [each for each in analyse(spark, as_guest, "wrong", config).problems if each.field == "output"] == []


def test_a_topic_that_is_missing_is_told(spark: SparkSession, settings: SparkSettings) -> None:
    """With the one that may be meant; a write may go on without it, as another job may make it later."""
    config = check_merged(changed({"inputs": {"flights": {"topic": f"{TOPIC}s", "key_groups": 3}}}, settings))
    found = analyse(spark, settings, "wrong", config)
    (problem,) = [each for each in found.problems if each.field == "inputs.flights.topic"]
    assert (problem.rule, problem.rule in MAY_COME_LATER) == ("topic_exists", True)
    assert f"inputs.flights: there is no topic {TOPIC}s" in problem.detail
    assert f"do you mean {TOPIC}?" in problem.detail
    assert found.unchecked == []


def test_what_records_say_against_an_input_is_told(spark: SparkSession, settings: SparkSettings) -> None:
    """1. Keys are where the job says, and all columns have values. 2. Another function, with the one that fits. 3.
    Seven keys may be where they are by chance: nothing is told. 4. The event time has another name in the records,
    of which other columns have the names of Kafka's."""
    many, few = (placed_by_crc32(settings, count) for count in (24, 7))

    def told(topic: str, **source: Any) -> dict[tuple[str, str], str]:
        change = {"inputs": {"flights": {"topic": topic, "key_groups": 3, "key_function": "crc32", **source}}}
        found = analyse(spark, settings, "wrong", check_merged(changed(change, settings)))
        assert (found.unchecked, found.notes) == ([], [])
        of_inputs = [each for each in found.problems if each.field.startswith("inputs")]
        return {(each.field, each.rule): each.detail for each in of_inputs}

    assert told(many) == {}
    ((where, why),) = told(many, key_function="kafka").items()
    assert where == ("inputs.flights.key_function", "key_function_of_producer")
    assert why.endswith("so set key_function to crc32")
    assert told(few, key_function="kafka") == {}
    schema = "dest STRING, carrier STRING, Time_ TIMESTAMP, delay DOUBLE, n INT, value DOUBLE, kind STRING"
    ((where, why),) = told(many, value_schema=schema, event_time_column="Time_").items()
    assert where == ("inputs.flights.event_time_column", "event_time_in_records")
    assert "Time_ is null in all 24 sampled records" in why
    assert why.endswith("they have time)")


def placed_by_crc32(settings: SparkSettings, keys: int) -> str:
    """A topic of flights, of so many keys, by librdkafka's default partitioner."""
    topic = unique("placed")
    bootstrap = {"bootstrap.servers": settings.kafka_bootstrap}
    admin = AdminClient(bootstrap)
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(10)
    producer = Producer(bootstrap)
    for n in range(keys):
        flight = {"dest": f"D{n}", "carrier": "AA", "time": "2026-01-01T00:00:00Z", "delay": 1.5, "n": n}
        flight |= {"value": 1.5, "kind": "late"}
        producer.produce(topic, key=flight["dest"], value=json.dumps(flight))
    assert producer.flush(30) == 0
    return topic


def test_all_outputs_that_are_wrong_are_told(spark: SparkSession, settings: SparkSettings) -> None:
    """And all expressions of one of them."""

    def topic(name: str) -> dict[str, str]:
        return {"type": "kafka", "topic": name}

    sides = {
        "a": {"output": topic("a"), "where": "dela > 1", "columns": ["dset", "dest", "to_json(1)"]},
        "b": {"output": topic("b"), "columns": ["carier"]},
    }
    found = analyse(spark, settings, "wrong", check_merged(changed({"side_outputs": sides}, settings))).problems
    told = [(problem.field, problem.rule) for problem in found if problem.field.startswith("side_outputs")]
    assert told == [
        ("side_outputs.a.where", "unresolved_column"),
        ("side_outputs.a.columns", "unresolved_column"),
        ("side_outputs.b.columns", "unresolved_column"),
    ]
    (columns,) = (problem.detail for problem in found if problem.field == "side_outputs.a.columns")
    assert "dset" in columns
    assert "to_json" in columns


def test_rights_that_only_the_first_start_would_miss_are_told(spark: SparkSession, settings: SparkSettings) -> None:
    """1. The account may not create the output's topic, or that of its marks; not read the group; not use the
    transactional id. Each is told with the ACL. 2. A job at least once needs no marks, group and transactions."""
    output = {"topic": unique("missing"), "key_groups": 8}
    once, least = (
        check_merged(changed({"output": output | more}, settings)) for more in ({}, {"delivery": "at_least_once"})
    )
    marks, series = f"{output['topic']}.penstock-marks", "penstock-wrong/0/1"
    for resource, name, operation, rule, needed in (
        (ResourceType.TOPIC, output["topic"], AclOperation.CREATE, "topic_writable", "grant CREATE"),
        (ResourceType.TOPIC, marks, AclOperation.CREATE, "topic_writable", "grant CREATE"),
        (ResourceType.GROUP, series, AclOperation.READ, "group_usable", "grant READ on groups"),
        (ResourceType.GROUP, series, AclOperation.DESCRIBE, "group_usable", "grant READ on groups"),
        (ResourceType.TRANSACTIONAL_ID, series, AclOperation.DESCRIBE, "transactions_usable", "grant WRITE and"),
    ):
        # Who may create topics in the cluster may create each.
        cluster = (settings.kafka_bootstrap, ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE)
        with denied(settings.kafka_bootstrap, resource, name, operation), denied(*cluster):
            told, not_once = (analyse(spark, settings, "wrong", config) for config in (once, least))
        found = {problem.rule: problem.detail for problem in told.problems if problem.rule not in MAY_COME_LATER}
        assert found.keys() == {rule}, (name, operation, found)
        assert needed in found[rule]
        assert name in found[rule]
        assert told.unchecked == not_once.unchecked == []
        is_own = name == output["topic"]
        assert {problem.rule for problem in not_once.problems} - MAY_COME_LATER == ({rule} if is_own else set())
    assert {problem.rule for problem in analyse(spark, settings, "wrong", once).problems} <= MAY_COME_LATER


def test_something_that_does_not_answer_says_nothing_against_a_query(
    spark: SparkSession, settings: SparkSettings
) -> None:
    found = analyse(spark, settings, "wrong", check_merged(changed(python("unreachable"), settings)))
    assert {problem.rule for problem in found.problems} <= MAY_COME_LATER
    (why,) = found.unchecked
    assert why.startswith(
        "query: wrong_queries:unreachable failed: ConnectionRefusedError: the registry does not answer"
    )


@pytest.fixture(scope="module")
def several(spark: SparkSession, settings: SparkSettings) -> Callable[[str], tuple[Problem, ...]]:
    """What Spark's plan of a SQL query over the inputs `INPUTS` says against four tasks."""
    session = spark.newSession()
    path = f"{settings.checkpoint_root}/planes"
    session.createDataFrame([("AA", 3)], "carrier string, seats int").write.parquet(path)
    changes = {"inputs": INPUTS, "task_count": 4, "tables": {"planes": {"path": path}}}
    config = JobConfig.model_validate(job(changes))
    sources = config.inputs.items()
    inputs = {name: read_input(session, name, source, KeyGroupRange(0, 1), settings, {}) for name, source in sources}

    result_of(session, inputs, config, settings)  # Makes the views.

    def problems(sql: str) -> tuple[Problem, ...]:
        return placement(session.sql(sql), inputs, config)[0]

    return problems


@pytest.mark.parametrize("sql", TOGETHER)
def test_several_tasks_may_run(sql: str, several: Callable[[str], tuple[Problem, ...]]) -> None:
    assert several(sql) == ()


@pytest.mark.parametrize(("sql", "operation"), APART)
def test_one_task_may_run_what_several_may_not(
    sql: str, operation: str | None, several: Callable[[str], tuple[Problem, ...]]
) -> None:
    found = several(sql)
    assert ("task_count", "stateful_needs_keys") in {(problem.field, problem.rule) for problem in found}
    assert any(problem.detail.startswith(f"{operation} in query.sql") for problem in found)


def test_state_over_a_kafka_key_of_several_columns_is_of_one_task(spark: SparkSession, settings: SparkSettings) -> None:
    """The bytes of such a key are not known, so state by it could not be moved."""
    keys = FLIGHTS | {"key_function": "kafka", "key_columns": ["carrier", "dest"]}
    grouped = {"sql": "SELECT carrier, dest, count(*) c FROM flights GROUP BY carrier, dest"}
    for query, task_count, rules in (
        (grouped, 1, set()),
        (grouped, 2, {"kafka_key_of_one_column"}),
        ({"sql": "SELECT dest FROM flights"}, 2, set()),
    ):
        config = check_merged(
            job({"query": query, "inputs": {"flights": keys}, "task_count": task_count, "tables": None} | UPDATE)
        )
        found = {problem.rule for problem in analyse(spark, settings, "wrong", config).problems}
        assert found - MAY_COME_LATER == rules


def test_the_problem_proposes_a_shuffle_job(several: Callable[[str], tuple[Problem, ...]]) -> None:
    (problem,) = several("SELECT carrier, count(*) FROM flights GROUP BY carrier")
    assert "inputs.flights is keyed by (dest string) with kafka" in problem.detail
    assert "a shuffle job before this one" in problem.detail
    assert "key_columns [carrier] and key_groups 8" in problem.detail
    (problem,) = several("SELECT count(*) FROM unkeyed")
    assert "inputs.unkeyed has key_function none" in problem.detail
    assert problem.detail.endswith("set task_count to 1")
    assert "shuffle job" not in problem.detail
