"""SQL queries: what they may read, and which state allows several tasks."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.query_rules import InputKeys, query_facts
from penstock.config.sql import MORE_AGGREGATES
from penstock.config.validate import check_merged
from penstock.control.errors import InvalidConfig
from tests.support.config.jobs import FLIGHTS, job

INPUTS = {
    "weather": FLIGHTS | {"topic": "weather"},
    "rekeyed": FLIGHTS | {"topic": "rekeyed", "key_function": "spark"},
    "pairs": FLIGHTS | {"topic": "pairs", "key_function": "spark", "key_columns": ["carrier", "dest"]},
    "unkeyed": FLIGHTS | {"topic": "unkeyed", "key_function": "none", "key_columns": []},
}


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
    ("SELECT 1", "reads_no_input"),
    ("SELECT * FROM planes", "reads_no_input"),
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
    ("SELECT '${env:SECRET}' FROM flights", "sql_variable"),
    ("SELECT dest FROM flights WHERE delay > ?", "unknown_argument"),
    ("SELECT " + "(" * 3000 + "1" + ")" * 3000 + " FROM flights", "sql_too_deep"),
    (" UNION ALL ".join(["SELECT dest FROM flights"] * 1500), "sql_too_deep"),
]


@pytest.mark.parametrize(("sql", "rule"), REFUSED_TEXTS)
def test_refused_text(sql: str, rule: str) -> None:
    error = refusal(sql)
    assert error.rule == rule
    assert error.field == ("args.?" if rule == "unknown_argument" else "query.sql")


@pytest.mark.parametrize(
    "sql",
    [
        "select * from FLIGHTS;",
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


STATELESS_OR_COLOCATED = [
    # no state
    "SELECT * FROM unkeyed",
    "SELECT u.*, p.seats FROM unkeyed u LEFT JOIN planes p ON u.carrier = p.carrier WHERE delay > 3",
    "SELECT dest FROM unkeyed UNION ALL SELECT dest FROM flights",
    "SELECT n FROM unkeyed JOIN (SELECT carrier, count(*) n FROM planes GROUP BY carrier) USING (carrier)",
    "SELECT dest, (SELECT max(seats) FROM planes) FROM unkeyed",
    # grouped by the key, and perhaps more
    "SELECT dest, count(*) FROM flights GROUP BY dest",
    "SELECT DEST, count(*) FROM Flights GROUP BY Dest",
    "SELECT f.dest, count(*) FROM flights f GROUP BY f.dest",
    "SELECT dest AS d, count(*) FROM flights GROUP BY d",
    "SELECT dest, carrier, count(*) FROM flights GROUP BY 2, 1",
    "SELECT dest, count(*) FROM flights GROUP BY ALL",
    "SELECT window(time, '10 minutes') w, dest, avg(delay) FROM flights GROUP BY window(time, '10 minutes'), dest",
    "SELECT dest, count(*) FROM flights GROUP BY dest, session_window(time, '5 minutes')",
    "SELECT carrier, dest, count(*) FROM pairs GROUP BY dest, carrier",
    "SELECT dest, count(DISTINCT carrier) FROM flights GROUP BY dest HAVING count(*) > 3",
    # keys that keep their way through subqueries
    "WITH f AS (SELECT dest AS d, carrier FROM flights) SELECT d, count(*) FROM f GROUP BY d",
    "WITH f(d, c) AS (SELECT dest, carrier FROM flights) SELECT d, count(*) FROM f GROUP BY d",
    "SELECT t.d, count(*) FROM (SELECT dest, carrier FROM flights) AS t(d, c) GROUP BY t.d",
    "SELECT d, count(*) FROM (SELECT *, dest AS d FROM flights) GROUP BY d",
    "SELECT dest, count(*) FROM (SELECT * EXCEPT (carrier) FROM flights) GROUP BY dest",
    "SELECT dest, max(n) FROM (SELECT dest, carrier, count(*) n FROM flights GROUP BY dest, carrier) GROUP BY dest",
    "SELECT dest, count(*) FROM flights f JOIN planes p ON f.carrier = p.carrier GROUP BY dest",
    # DISTINCT and set operations over the key
    "SELECT DISTINCT dest FROM flights",
    "SELECT DISTINCT * FROM flights",
    "SELECT dest, delay FROM flights UNION SELECT dest, delay FROM weather",
    "SELECT d, count(*) FROM (SELECT dest d, 1 FROM flights UNION ALL SELECT dest, 2 FROM weather) GROUP BY d",
    # joins of streams on the key
    "SELECT f.delay, w.delay FROM flights f JOIN weather w ON f.dest = w.dest AND w.time > f.time - INTERVAL 1 HOUR",
    "SELECT f.delay FROM flights f JOIN weather w USING (dest)",
    "SELECT f.delay FROM flights f NATURAL JOIN weather w",
    "SELECT f.delay FROM flights f, weather w WHERE w.dest = f.dest",
    "SELECT f.dest, count(*) FROM flights f LEFT JOIN weather w ON w.dest = f.dest GROUP BY f.dest",
    "SELECT w.dest, count(*) FROM flights f JOIN weather w ON w.dest = f.dest GROUP BY w.dest",
    "SELECT p.dest FROM pairs p JOIN pairs q ON p.dest = q.dest AND q.carrier = p.carrier",
    "SELECT a.dest FROM flights a JOIN weather b ON a.dest = b.dest JOIN flights c ON b.dest = c.dest",
    "SELECT dest, sum(delay) OVER (PARTITION BY dest) FROM flights",
]
SPLIT = [
    # input without a known key
    ("SELECT dest, count(*) FROM unkeyed GROUP BY dest", "GROUP BY"),
    ("SELECT DISTINCT dest FROM unkeyed", "DISTINCT"),
    ("SELECT count(*) FROM unkeyed", "an aggregate without GROUP BY"),
    ("SELECT f.dest FROM flights f JOIN unkeyed u ON f.dest = u.dest", "JOIN"),
    # grouped by something else
    ("SELECT carrier, count(*) FROM flights GROUP BY carrier", "GROUP BY"),
    ("SELECT dest, count(*) FROM pairs GROUP BY dest", "GROUP BY"),
    ("SELECT upper(dest), count(*) FROM flights GROUP BY upper(dest)", "GROUP BY"),
    ("SELECT upper(dest) AS dest, count(*) FROM (SELECT upper(dest) AS dest FROM flights) GROUP BY dest", "GROUP BY"),
    ("SELECT dest, count(*) FROM (SELECT carrier AS dest FROM flights) GROUP BY dest", "GROUP BY"),
    ("SELECT info.dest, count(*) FROM flights GROUP BY info.dest", "GROUP BY"),
    ("SELECT window(time, '1 hour'), count(*) FROM flights GROUP BY window(time, '1 hour')", "GROUP BY"),
    ("SELECT dest, count(*) FROM flights GROUP BY dest WITH ROLLUP", "GROUP BY"),
    ("SELECT dest, count(*) FROM flights GROUP BY ROLLUP (dest)", "GROUP BY"),
    ("SELECT dest, count(*) FROM flights GROUP BY GROUPING SETS ((dest), ())", "GROUP BY"),
    ("SELECT count(*) FROM flights", "an aggregate without GROUP BY"),
    ("SELECT std(delay) FROM flights", "an aggregate without GROUP BY"),
    ("SELECT 1 FROM flights HAVING count(*) > 3", "an aggregate without GROUP BY"),
    ("SELECT count(*) FILTER (WHERE delay > 3) FROM flights", "an aggregate without GROUP BY"),
    ("SELECT max(n) FROM (SELECT dest, count(*) n FROM flights GROUP BY dest)", "an aggregate without GROUP BY"),
    # all rows, or rows by other columns
    ("SELECT DISTINCT carrier FROM flights", "DISTINCT"),
    ("SELECT carrier FROM flights UNION SELECT carrier FROM weather", "UNION"),
    ("SELECT carrier FROM flights INTERSECT SELECT carrier FROM weather", "INTERSECT"),
    ("SELECT * FROM flights LIMIT 3", "LIMIT"),
    ("SELECT * FROM (SELECT * FROM flights LIMIT 3)", "LIMIT"),
    ("SELECT * FROM flights PIVOT (sum(delay) FOR carrier IN ('AA', 'UA'))", "PIVOT"),
    ("SELECT sum(delay) OVER (PARTITION BY carrier) FROM flights", "OVER"),
    # unions whose branches are placed differently, or cannot be compared
    (
        "SELECT dest, count(*) FROM (SELECT dest FROM flights UNION ALL SELECT dest FROM rekeyed) GROUP BY dest",
        "GROUP BY",
    ),
    (
        "SELECT a, 1 FROM (SELECT dest a, delay FROM flights UNION ALL SELECT carrier, 1 FROM weather) GROUP BY a",
        "GROUP BY",
    ),
    ("SELECT dest, count(*) FROM (SELECT * FROM flights UNION ALL SELECT * FROM weather) GROUP BY dest", "GROUP BY"),
    ("SELECT a, count(*) FROM (SELECT upper(dest) AS a, dest AS a FROM flights) AS t(a, b) GROUP BY a", "GROUP BY"),
    # joins that do not bring equal keys together
    ("SELECT f.dest FROM flights f JOIN weather w ON f.carrier = w.carrier", "JOIN"),
    ("SELECT f.dest FROM flights f JOIN weather w ON f.dest < w.dest", "JOIN"),
    ("SELECT f.dest FROM flights f JOIN weather w ON f.dest = w.dest OR f.time = w.time", "JOIN"),
    ("SELECT f.dest FROM flights f JOIN rekeyed r ON f.dest = r.dest", "JOIN"),
    ("SELECT p.dest FROM pairs p JOIN pairs q ON p.dest = q.carrier AND p.carrier = q.dest", "JOIN"),
    ("SELECT * FROM flights CROSS JOIN weather", "JOIN"),
    ("SELECT w.dest, count(*) FROM flights f LEFT JOIN weather w ON w.dest = f.dest GROUP BY w.dest", "GROUP BY"),
    ("SELECT f.dest, count(*) FROM flights f FULL JOIN weather w ON w.dest = f.dest GROUP BY f.dest", "GROUP BY"),
    ("SELECT * FROM flights WHERE dest IN (SELECT dest FROM weather)", "a subquery over a stream"),
    (
        "SELECT * FROM flights f WHERE EXISTS (SELECT 1 FROM weather w WHERE w.dest = f.dest)",
        "a subquery over a stream",
    ),
]


@pytest.mark.parametrize("sql", STATELESS_OR_COLOCATED)
def test_several_tasks_may_run(sql: str) -> None:
    assert check_merged(running(sql, 4)).task_count == 4


@pytest.mark.parametrize(("sql", "operation"), SPLIT)
def test_one_task_may_run_what_several_may_not(sql: str, operation: str) -> None:
    assert check_merged(running(sql, 1)).task_count == 1
    error = refusal(sql, task_count=4)
    assert (error.field, error.rule) == ("task_count", "stateful_needs_keys")
    assert error.detail.startswith(f"{operation} in query.sql")


def test_state_over_a_kafka_key_of_several_columns_is_of_one_task() -> None:
    keys = FLIGHTS | {"key_function": "kafka", "key_columns": ["carrier", "dest"]}
    grouped = {"sql": "SELECT carrier, dest, count(*) FROM flights GROUP BY carrier, dest"}
    change = {"query": grouped, "inputs": {"flights": keys}}
    assert check_merged(job(change | {"task_count": 1})).task_count == 1
    with pytest.raises(InvalidConfig) as refused:
        check_merged(job(change | {"task_count": 2}))
    assert (refused.value.field, refused.value.rule) == ("inputs.flights.key_columns", "kafka_key_of_one_column")
    assert check_merged(job(change | {"query": {"sql": "SELECT dest FROM flights"}, "task_count": 2})).task_count == 2


def test_the_error_proposes_a_shuffle_job() -> None:
    detail = refusal("SELECT carrier, count(*) FROM flights GROUP BY carrier", task_count=4).detail
    assert "inputs.flights is keyed by (dest) with kafka" in detail
    assert "a shuffle job before this one" in detail
    assert "key_columns [carrier] and key_groups 8" in detail


def test_the_proposed_shuffle_job_and_its_reader_are_valid() -> None:
    shuffle = job({"output": {"topic": "by-carrier", "key_columns": ["carrier"], "key_groups": 8}, "task_count": 4})
    reader = job(
        {
            "query": {"sql": "SELECT carrier, count(*) FROM flights GROUP BY carrier"},
            "inputs": {"flights": {"topic": "by-carrier", "key_function": "spark", "key_columns": ["carrier"]}},
            "task_count": 4,
        }
    )
    assert check_merged(shuffle).task_count == check_merged(reader).task_count == 4


def test_without_a_key_only_one_task_is_proposed() -> None:
    detail = refusal("SELECT count(*) FROM unkeyed", task_count=2).detail
    assert "inputs.unkeyed has key_function none" in detail
    assert detail.endswith("set task_count to 1")
    assert "shuffle job" not in detail


def test_state_of_a_python_query_is_not_seen() -> None:
    python = job({"query": {"sql": None, "python": "m:f"}, "package": {"name": "p"}, "task_count": 4})
    assert check_merged(python | {"inputs": {"unkeyed": INPUTS["unkeyed"]}}).task_count == 4


SKETCHES = [
    "bitmap_and_agg",
    "hll_sketch_agg",
    "hll_union_agg",
    "kll_merge_agg_bigint",
    "kll_merge_agg_double",
    "kll_merge_agg_float",
    "kll_sketch_agg_bigint",
    "kll_sketch_agg_double",
    "kll_sketch_agg_float",
    "theta_intersection_agg",
    "theta_sketch_agg",
    "theta_union_agg",
    "tuple_intersection_agg_double",
    "tuple_intersection_agg_integer",
    "tuple_sketch_agg_double",
    "tuple_sketch_agg_integer",
    "tuple_union_agg_double",
    "tuple_union_agg_integer",
]


@pytest.mark.parametrize("name", [*sorted(MORE_AGGREGATES), *SKETCHES])
def test_aggregates_that_the_parser_does_not_know(name: str) -> None:
    facts = query_facts(f"SELECT {name}(x) FROM flights", (InputKeys("flights", "none", ()),), ())
    assert [step.operation for step in facts.steps] == ["an aggregate without GROUP BY"]


def test_arguments_are_the_markers_of_the_whole_query() -> None:
    sql = "SELECT :a FROM (SELECT * FROM flights WHERE x > :b) WHERE y IN (SELECT :c FROM planes)"
    assert query_facts(sql, (InputKeys("flights", "none", ()),), ("planes",)).arguments == {"a", "b", "c"}
