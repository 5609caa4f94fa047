"""Two processes on one checkpoint: the one that was replaced while it stood still commits nothing any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from tests.support.exactly_once.holds import HELD_CHECKPOINT, hold_at_commit, hold_at_row
from tests.support.exactly_once.plan import Plan, QueryPlan
from tests.support.exactly_once.process import running, settings
from tests.support.exactly_once.rows import judge
from tests.support.exactly_once.topics import make_query, make_source

_ROWS = 4_000
_HELD_ROW = 2_203
_HELD_BATCH = 3
_REACH_SECONDS = 120.0


@pytest.mark.long
def test_a_replaced_process_commits_nothing(kafka: EmbeddedKafka, tmp_path: Path, proof_classes: Path) -> None:
    """Four queries: both forms of the sink, held within the rows of a batch and between its two commits.

    1. The first process comes to all four places; it is stopped there (SIGSTOP).
    2. A second process takes over and comes to the end of the rows.
    3. The first one goes on (SIGCONT). Its queries fail: by Kafka's fence where the transaction was open, by Spark's
       log where only `commits/N` was to come. They have written nothing.
    """
    source = make_source(kafka.bootstrap, _ROWS)
    in_batch = [hold_at_row(_query(kafka, tmp_path, source, scope), _HELD_ROW) for scope in ("batch", "partition")]
    after_it = [hold_at_commit(_query(kafka, tmp_path, source, scope), _HELD_BATCH) for scope in ("batch", "partition")]
    queries = tuple(query for query, _ in in_batch + after_it)
    holds = [hold for _, hold in in_batch + after_it]
    for hold in holds:
        hold.arm()
    plan = Plan("local[6]", _settings(tmp_path, proof_classes), kafka.bootstrap, queries)

    with running(tmp_path / "first", plan) as first:
        wait_until(lambda: all(hold.reached for hold in holds), _REACH_SECONDS, "all four places")
        first.pause()
        for hold in holds:
            hold.release()
        with running(tmp_path / "second", plan) as second:
            assert second.errors() == {query.name: [] for query in queries}
        first.go_on()
        errors = first.errors()

    for query, _ in in_batch:
        assert [error for error in errors[query.name] if "FENCED" in error], errors
    for query, _ in after_it:
        assert [error for error in errors[query.name] if "concurrently using" in error], errors
    verdicts = {query.name: judge(kafka.bootstrap, query.name, _ROWS) for query in queries}
    assert all(verdict.exact for verdict in verdicts.values()), verdicts


def _query(kafka: EmbeddedKafka, folder: Path, source: str, scope: str) -> QueryPlan:
    return make_query(kafka.bootstrap, folder, source, scope, rows_per_batch=400)


def _settings(folder: Path, classes: Path) -> dict[str, str]:
    return settings(folder, classes) | {"spark.sql.streaming.checkpointFileManagerClass": HELD_CHECKPOINT}
