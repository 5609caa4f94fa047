"""How replays are asked for and shown."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from penstock.cli import replay as module
from penstock.cli.replay import lines, moment, rows, total, with_tasks
from penstock.control.errors import NotFound, UserError
from penstock.wire.replays import HAS_NO_TASKS, ReplayTotals, ReplayView
from tests.support.cli.shell import Shell

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)


def replay(job: str, missed: int) -> ReplayView:
    def totals(more: int) -> ReplayTotals:
        return ReplayTotals(slo_minutes_missed=missed + more, task_hours=0.1, actions=more)

    return ReplayView(
        job=job, since=NOW, until=NOW, minutes=2, minutes_known=1, measured=totals(0), model_of_measured=totals(1),
        in_force=totals(2), proposed=totals(3), decisions=5, decisions_otherwise=4, notes=["not all is known"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7d", NOW - timedelta(days=7)),
        ("90s", NOW - timedelta(seconds=90)),
        ("2026-01-09T08:00Z", datetime(2026, 1, 9, 8, tzinfo=UTC)),
        ("2026-01-09T08:00+01:00", datetime(2026, 1, 9, 7, tzinfo=UTC)),
    ],
)
def test_a_time_is_given_as_such_or_by_how_long_ago_it_was(text: str, expected: datetime) -> None:
    assert moment(text, NOW, field="from") == expected


@pytest.mark.parametrize(("text", "rule"), [("2026-01-09T08:00", "time_zone"), ("yesterday", "duration")])
def test_a_time_without_a_zone_and_what_is_no_time_are_refused(text: str, rule: str) -> None:
    with pytest.raises(UserError) as refused:
        moment(text, NOW, field="from")
    assert (refused.value.field, refused.value.rule) == ("from", rule)


def test_each_job_has_four_rows_and_so_have_all_of_several() -> None:
    found = [replay("a", 1), replay("b", 10)]
    shown = list(rows(found))
    assert [(row[0], row[2]) for row in shown] == [
        *(("a", 1 + more) for more in range(4)),
        *(("b", 10 + more) for more in range(4)),
        *(("all", 11 + 2 * more) for more in range(4)),
    ]
    assert len(list(rows(found[:1]))) == 4
    assert total(found, "proposed") == ReplayTotals(slo_minutes_missed=17, task_hours=0.2, actions=6)


def test_each_job_has_a_line_with_its_decisions_and_notes() -> None:
    assert list(lines([replay("a", 1)])) == [
        "a: 4 of 5 stored decisions would be others on the same inputs; not all is known"
    ]


@pytest.mark.parametrize("rule", [HAS_NO_TASKS, "known"])
def test_of_all_jobs_only_those_without_tasks_are_left_out(rule: str) -> None:
    def asked(job: str) -> ReplayView:
        if job == "a":
            raise NotFound("no", rule=rule)
        return replay(job, 0)

    if rule == HAS_NO_TASKS:
        assert [one.job for one in with_tasks(["a", "b"], asked)] == ["b"]
    else:
        with pytest.raises(NotFound):
            list(with_tasks(["a", "b"], asked))


def test_a_terminal_shows_how_many_jobs_are_replayed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], drawn: io.StringIO
) -> None:
    cell = SimpleNamespace(replay=lambda job, **_: replay(job, 0))
    monkeypatch.setattr(module, "client", lambda: cell)
    Shell(monkeypatch, capsys)("replay", "a", "b", "--policy", "{}").ok()
    assert "replaying jobs: 2 of 2" in drawn.getvalue()
