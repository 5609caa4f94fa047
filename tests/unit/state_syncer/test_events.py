"""What is told of a decision."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from services.state_syncer.decide.change import decide
from services.state_syncer.decide.decisions import Nothing
from services.state_syncer.decide.effects import COMMITTED, LogEvent, effects
from services.state_syncer.decide.observe import Presence
from services.state_syncer.decide.view import JobView, Running
from services.state_syncer.round.events import LOGGED_COMMITS, log_events, log_simple
from services.state_syncer.store.simple import Committed, SimpleCommits
from tests.support.store.jobs import make_config

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING = Running(make_config(), 5, 1, 0, False, True, 9)


def view(**fields: Any) -> JobView:
    values: dict[str, Any] = {"job": "j", "revision": 6, "restarts": 0, "deleting": False, "running": RUNNING}
    return JobView(**({"expected": make_config()} | values | fields))


@pytest.mark.parametrize(
    ("job", "event", "kind"),
    [
        (view(running=None), COMMITTED, "first"),
        (view(expected=make_config(priority=2)), COMMITTED, "live"),
        (view(restarts=1), COMMITTED, "restart"),
        (view(deleting=True), COMMITTED, "delete"),
        (view(expected=make_config(state_backend="rocksdb")), "job failed to sync", "forbidden"),
        (view(running=None, deleting=True, presence=Presence.UNKNOWN), "job forgotten", "delete"),
    ],
)
def test_a_decision_has_a_log_line(job: JobView, event: str, kind: str) -> None:
    (line,) = effects(job, decide(job, NOW), NOW).events
    assert (line.event, line.kind, line.job, line.revision) == (event, kind, "j", 6)


def test_nothing_is_logged_of_nothing() -> None:
    assert effects(view(), Nothing(), NOW).events == ()


def commits(count: int) -> list[LogEvent]:
    return [LogEvent(COMMITTED, f"job-{number}", number, "live", {}) for number in range(count)]


def test_each_commit_is_logged_with_job_revision_and_kind() -> None:
    counter = {"kind": "live"}
    before = REGISTRY.get_sample_value("penstock_syncer_commits_total", counter) or 0.0
    with capture_logs() as lines:
        log_events(commits(2), 77)
    assert [(line["event"], line["job"], line["revision"], line["kind"], line["commit"]) for line in lines] == [
        (COMMITTED, "job-0", 0, "live", 77),
        (COMMITTED, "job-1", 1, "live", 77),
    ]
    assert REGISTRY.get_sample_value("penstock_syncer_commits_total", counter) == before + 2


def test_a_very_large_round_is_one_line() -> None:
    with capture_logs() as lines:
        log_events(commits(LOGGED_COMMITS + 1), 77)
    told = [line for line in lines if line["log_level"] != "debug"]
    assert [line["event"] for line in told] == ["jobs committed"]
    assert told[0]["jobs"] == LOGGED_COMMITS + 1


def test_commits_that_were_made_alike_are_counted_by_kind_and_named_up_to_a_limit() -> None:
    counter = {"kind": "live"}
    before = REGISTRY.get_sample_value("penstock_syncer_commits_total", counter) or 0.0
    few = Committed("live", 2, 8, (("a", 7), ("b", 8)))
    with capture_logs() as lines:
        log_simple(SimpleCommits(77, (few,)))
        log_simple(SimpleCommits(78, (few, Committed("restart", LOGGED_COMMITS, 9, (("c", 9),)))))
    told = [line for line in lines if line["log_level"] == "info"]
    assert [(line["event"], line.get("job"), line.get("jobs"), line["revision"]) for line in told] == [
        (COMMITTED, "a", None, 7),
        (COMMITTED, "b", None, 8),
        ("jobs committed", None, LOGGED_COMMITS + 2, 9),
    ]
    assert REGISTRY.get_sample_value("penstock_syncer_commits_total", counter) == before + 4
