"""SQL queries: what their text may be, and what they may read."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.colocation import StatefulStep
from penstock.config.plan_dataflow import InputColumns, PlanFacts
from penstock.config.query_rules import plan_problems, query_facts
from penstock.config.validate import check_merged
from penstock.control.errors import InvalidConfig
from tests.support.config.jobs import job
from tests.support.spark.several_tasks import INPUTS


def running(sql: str, task_count: int) -> dict[str, Any]:
    """A job with this query over inputs of every sort."""
    return job({"query": {"sql": sql}, "inputs": INPUTS, "task_count": task_count})


def refusal(sql: str, task_count: int = 1) -> InvalidConfig:
    """The error for a query that must be refused."""
    with pytest.raises(InvalidConfig) as refused:
        check_merged(running(sql, task_count))
    return refused.value


REFUSED_TEXTS = [
    ("SELECT e.dest FROM flights e" + " JOIN flights" * 30 + " WHERE 0=1", "sql_too_complex"),
    ("SELECT 1 FROM flights" + " LEFT JOIN flights" * 15 + " ON true", "sql_too_complex"),
    ("SELECT 1 FROM flights" + " JOIN LATERAL (SELECT 1)" * 20, "sql_too_complex"),
    ("SELECT " + "struct(" * 30 + "dest" + ")" * 30 + " FROM flights", "sql_too_complex"),
    ("SELECT " + "decimal(" * 30 + "1" + ")" * 30 + " FROM flights", "sql_too_complex"),
    ("SELECT " + "dest, " * 6000 + "dest FROM flights", "sql_too_long"),
    ("SELEC * FROM flights", "sql_syntax"),
    ("SELECT * FROM flights WHERE (", "sql_syntax"),
    ("SELECT 'unclosed FROM flights", "sql_syntax"),
    (";", "one_select"),
    ("SELECT * FROM flights; SELECT * FROM flights", "one_select"),
    ("DROP TABLE flights", "one_select"),
    ("INSERT INTO t SELECT * FROM flights", "one_select"),
    ("CREATE TABLE t AS SELECT * FROM flights", "one_select"),
    ("SET x = 1", "one_select"),
    ("EXPLAIN SELECT * FROM flights", "one_select"),
    ("VALUES (1)", "one_select"),
    ("SELECT * FROM nowhere", "unknown_relation"),
    ("SELECT * FROM other.flights", "unknown_relation"),
    ("SELECT * FROM parquet.`/etc/passwd`", "unknown_relation"),
    ("SELECT * FROM range(10), flights", "unknown_relation"),
    ("SELECT * FROM flights WHERE dest IN (SELECT dest FROM nowhere)", "unknown_relation"),
    ("SELECT (SELECT max(x) FROM nowhere) FROM flights", "unknown_relation"),
    ("WITH f AS (SELECT * FROM f) SELECT * FROM f JOIN flights USING (dest)", "unknown_relation"),
    ("SELECT * FROM flights JOIN (WITH c AS (SELECT * FROM planes) SELECT * FROM c) JOIN c", "unknown_relation"),
    ("WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r, flights", "unsupported_sql"),
    ("SELECT reflect('java.lang.System', 'exit', 1) FROM flights", "foreign_code"),
    ("SELECT TRANSFORM (dest) USING 'cat' FROM flights", "foreign_code"),
    # To Spark a comment ends elsewhere: what sqlglot skips would run.
    ("-- \\\nSELECT * FROM flights \\\nINSERT OVERWRITE LOCAL DIRECTORY '/out' SELECT 1 -- \\\n", "sql_comment"),
    ("SELECT 1 FROM flights /* /*+ */ UNION ALL SELECT * FROM hidden -- */", "sql_comment"),
    # Spark reads the string in the second hint, with the end of a comment in it.
    ("SELECT /*+ a */ /*+ b('*/ dest FROM flights -- ') */ dest FROM flights JOIN hidden USING (x)", "sql_comment"),
    ("SELECT dest /* a */ /*+ b */ FROM flights", "sql_comment"),
    # sqlglot would take all after FETCH for one string.
    ("SELECT begin fetch, dest FROM (SELECT 1 AS begin, dest FROM hidden)", "sql_syntax"),
    ("SELECT xpath_string(dest, '/a') FROM flights", "foreign_files"),
    ("SELECT map(dest) FROM flights", "sql_syntax"),
    ("SELECT from_xml(dest, 'a INT', map('rowValidationXSDPath', '/x')) FROM flights", "foreign_files"),
    ("SELECT from_json(dest, `schema_of_xml`('<a/>')) FROM flights", "foreign_files"),
    ("SELECT system.builtin.from_protobuf(dest, 'M', '/x') FROM flights", "foreign_files"),
    ("SELECT '${env:SECRET}' FROM flights", "sql_variable"),
    ("SELECT dest FROM flights WHERE delay > ?", "unknown_argument"),
    (
        "SELECT dest FROM flights WHERE " + " OR ".join(["dest = 'JFK'"] * 400) + " AND x IN (SELECT 1 FROM y)",
        "unknown_relation",
    ),
    ("SELECT " + "(" * 3000 + "1" + ")" * 3000 + " FROM flights", "sql_too_deep"),
    (" UNION ALL ".join(["SELECT dest FROM flights"] * 1500), "sql_too_deep"),
]


@pytest.mark.parametrize(("sql", "rule"), REFUSED_TEXTS)
def test_refused_text(sql: str, rule: str) -> None:
    error = refusal(sql)
    assert error.rule == rule
    assert error.field == ("args.?" if rule == "unknown_argument" else "query.sql")


ALL = "There are: flights, pairs, planes, rekeyed, unkeyed and 1 more"


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        (
            "SELECT * FROM flihgts",
            f"reads flihgts, which is neither an input, a table of the job nor a CTE: do you mean flights? {ALL}",
        ),
        (
            "WITH home AS (SELECT * FROM flights) SELECT * FROM hoem",
            "do you mean home? There are: flights, home, pairs, planes, rekeyed and 2 more",
        ),
        (
            "SELECT * FROM IDENTIFIER('flight')",
            f"write the name itself in place of IDENTIFIER(...); do you mean flights? {ALL}",
        ),
        ("SELECT * FROM IDENTIFIER(:name)", "write the name itself in place of IDENTIFIER(...); there are: flights, "),
    ],
)
def test_an_unknown_relation_is_told_with_those_that_it_may_mean(sql: str, told: str) -> None:
    assert told in refusal(sql).detail


@pytest.mark.parametrize(
    "sql",
    [
        "select * from FLIGHTS;",
        "SELECT * -- all of it\nFROM flights /* by day */",
        "FROM flights SELECT dest",
        "(SELECT dest FROM flights)",
        "SELECT /*+ BROADCAST(p) */ * FROM flights f LEFT JOIN planes p ON f.carrier = p.carrier",
        "WITH flights AS (SELECT * FROM flights WHERE delay > 0) SELECT * FROM flights",
        "WITH a AS (SELECT * FROM flights), b AS (SELECT * FROM a) SELECT * FROM b",
        "SELECT * FROM (SELECT dest FROM flights) LATERAL VIEW explode(array(1, 2)) t AS n",
        "SELECT * FROM flights WHERE dest IN (SELECT dest FROM planes)",
        "SELECT `dest` FROM `flights` UNION ALL SELECT dest FROM weather",
        "SELECT dest, window(time, '10 minutes').start FROM flights",
        "SELECT window_time(window) AS at, n FROM (SELECT window(time, '1 hour'), count(*) n FROM flights GROUP BY 1)",
        "SELECT dest, count(*) OVER w FROM flights WINDOW w AS (PARTITION BY dest)",
        "SELECT f.dest FROM flights AS f TABLESAMPLE (10 PERCENT)",
        "SELECT dest, v.x FROM flights, VALUES (1), (2) AS v(x)",
        "SELECT * FROM flights CROSS JOIN LATERAL (SELECT max(x) FROM planes)",
    ],
)
def test_accepted_text(sql: str) -> None:
    assert check_merged(running(sql, 1)).query.sql == sql


def test_where_rows_are_is_left_to_spark() -> None:
    """The text of a query says nothing about it; a host checks the plan before tasks start (`tasks.sinks`)."""
    assert check_merged(running("SELECT carrier, count(*) FROM unkeyed GROUP BY carrier", 4)).task_count == 4


def test_arguments_are_the_markers_of_the_whole_query() -> None:
    sql = "SELECT :a FROM (SELECT * FROM flights WHERE x > :b) WHERE y IN (SELECT :c FROM planes)"
    assert query_facts(sql, frozenset({"flights", "planes"})).arguments == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("by", "advice"),
    [
        (("dest", "window"), "key_columns [dest] and"),
        (("dest", "upper_carrier", "session_window"), "key_columns [dest] and"),
        (("upper_carrier", "window"), "key_columns [upper_carrier] and"),
        (("window",), "No key can bring them together: set task_count to 1"),
    ],
)
def test_the_advised_keys_are_columns_that_a_job_before_can_write(by: tuple[str, ...], advice: str) -> None:
    config = check_merged(running("SELECT dest FROM flights", 2))
    facts = PlanFacts(steps=[StatefulStep("GROUP BY", frozenset({"flights"}), by, colocated=False)])
    columns = {"flights": InputColumns("none", (), (("Dest", "string"),))}
    (problem, *_) = plan_problems(config, facts, columns)
    assert problem.rule == "stateful_needs_keys"
    assert advice in problem.detail


UNKEYED = InputColumns("none", (), (("Dest", "string"), ("carrier", "string")))


@pytest.mark.parametrize(
    ("by", "inputs", "said"),
    [
        (
            ("dest", "window"),
            {"unkeyed"},
            "If the producer of inputs.unkeyed chooses the partition by dest, set inputs.unkeyed.key_columns to [dest] "
            "and inputs.unkeyed.key_function to spark, kafka (Java producers) or crc32 (librdkafka: Python, C, Go). "
            "Else put a shuffle job",
        ),
        (("dest", "carrier"), {"unkeyed"}, "by some of (dest, carrier), set inputs.unkeyed.key_columns to these"),
        (
            ("dest",),
            {"unkeyed", "flights"},
            "set inputs.flights.key_function to spark and inputs.flights.key_columns to [dest] and "
            "inputs.unkeyed.key_function to spark and inputs.unkeyed.key_columns to [dest]; or set task_count to 1",
        ),
    ],
)
def test_the_remedy_names_the_fields_to_set(by: tuple[str, ...], inputs: set[str], said: str) -> None:
    config = check_merged(running("SELECT dest FROM flights", 2))
    facts = PlanFacts(steps=[StatefulStep("GROUP BY", frozenset(inputs), by, colocated=False)])
    (problem, *_) = plan_problems(config, facts, dict.fromkeys(inputs, UNKEYED))
    assert said in problem.detail


def test_an_input_that_says_how_it_is_keyed_is_not_asked_to_say_it() -> None:
    """Its producer uses other columns: only a shuffle job helps."""
    config = check_merged(running("SELECT dest FROM flights", 2))
    facts = PlanFacts(steps=[StatefulStep("GROUP BY", frozenset({"flights"}), ("carrier",), colocated=False)])
    (problem, *_) = plan_problems(config, facts, {"flights": UNKEYED})
    assert "the producer of" not in problem.detail
    assert ". Put a shuffle job before this one" in problem.detail


def test_a_shuffle_job_before_an_input_with_event_time_has_it_too() -> None:
    said = "give its inputs the event_time_column and watermark_delay of these"
    facts = PlanFacts(steps=[StatefulStep("GROUP BY", frozenset({"flights"}), ("carrier",), colocated=False)])
    untimed = running("SELECT dest FROM flights", 2)
    source = untimed["inputs"]["flights"]
    timed = {"value_schema": "dest STRING, at TIMESTAMP", "event_time_column": "at", "watermark_delay": "1 minute"}
    told = [
        next(iter(plan_problems(check_merged({**untimed, "inputs": {"flights": source | more}}), facts, {}))).detail
        for more in ({}, timed)
    ]
    assert [said in detail for detail in told] == [False, True]


def test_an_initial_state_is_for_one_task() -> None:
    keyed = StatefulStep("transformWithState", frozenset({"flights"}), ("dest",), colocated=True, begins_full=True)
    facts = PlanFacts(steps=[keyed])
    rules = [
        [problem.rule for problem in plan_problems(check_merged(running("SELECT dest FROM flights", count)), facts, {})]
        for count in (1, 2)
    ]
    assert rules == [[], ["initial_state_of_one_task"]]
