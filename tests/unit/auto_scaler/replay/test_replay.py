"""What a replay makes of recorded minutes and decisions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock.control.errors import InvalidConfig
from penstock.model.job_metrics import MINUTE, JobMinutes
from penstock.wire.replays import ReplayRequest
from services.auto_scaler.decide.decision import DecisionInputs
from services.auto_scaler.decide.explain import as_stored
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.replay import replay
from services.auto_scaler.replay.model import RescaleCost
from services.auto_scaler.replay.recorded import (
    METRICS,
    Known,
    RecordedJob,
    StoredDecision,
    cost_of,
    rates_per_task,
    recorded_job,
)
from services.auto_scaler.replays import read_policy, read_times
from tests.support.auto_scaler import NOW, job, rate, state, symptoms
from tests.support.auto_scaler import load as load_of

P = 100.0
SLO = 90.0


def minutes(**columns: list[float | None]) -> JobMinutes:
    length = len(next(iter(columns.values())))
    return JobMinutes(NOW, {name: tuple(columns.get(name, [None] * length)) for name in METRICS})


def steady(rows: list[float | None], tasks: float = 2, **more: list[float | None]) -> JobMinutes:
    """Minutes without a backlog, in which busy tasks get through P each."""
    known: dict[str, list[float | None]] = {
        "input_rows_per_second": rows,
        "processed_rows_per_second": [P * tasks] * len(rows),
        "backlog_records": [0.0] * len(rows),
        "busy_share": [1.0] * len(rows),
        "lag_seconds": [0.0] * len(rows),
        "tasks_running": [tasks] * len(rows),
    }
    return minutes(**(known | more))


def recorded(found: JobMinutes, decisions: list[StoredDecision] | None = None, **known: Any) -> RecordedJob:
    config = job(2, slo={"max_lag_seconds": SLO})
    present = Known(NOW, config, state(declared_task_count=1, **known))
    return recorded_job("j", NOW, found, decisions or [], present, None, Policy())


def stored(
    action: str, change: dict[str, Any] | None, *, ago: timedelta = timedelta(0), **inputs: Any
) -> StoredDecision:
    known = {"rate": rate(P), "load": load_of(500.0)} | inputs
    read = DecisionInputs(symptoms=symptoms(100.0), config=job(2), state=state(**known), policy=Policy(), now=NOW - ago)
    return StoredDecision(NOW - ago, action, change, "written", as_stored(read, read.decide()))


def test_a_task_does_what_it_measured_while_busy_and_idle_minutes_take_the_usual() -> None:
    found = minutes(
        processed_rows_per_second=[200.0, 240.0, 20.0, None, 300.0, 2.0],
        tasks_running=[2.0, 2.0, 2.0, 2.0, 2.0, 2.0],
        busy_share=[0.9, 0.9, 0.1, None, 0.1, 1.0],
        backlog_records=[0.0] * 6,
    )
    assert rates_per_task(found, Policy()) == [100.0, 120.0, 100.0, 100.0, 150.0, 1.0]


def test_without_any_rate_nothing_is_known_and_nothing_counts() -> None:
    found = recorded(steady([100.0, 100.0], processed_rows_per_second=[None, None]))
    assert replay.known_minutes(found) == 0
    assert replay.measured(found) == replay.model_of_what_ran(found) == replay.model_of(found, Policy())
    assert replay.measured(found) == replay.Totals()


def test_minutes_that_are_not_known_count_for_none() -> None:
    found = recorded(steady([100.0, None, None, 100.0]))
    assert replay.known_minutes(found) == 2
    assert replay.measured(found).task_hours == replay.model_of_what_ran(found).task_hours == pytest.approx(4 / 60)


def test_the_model_of_what_ran_misses_the_minutes_that_were_missed() -> None:
    """400 rows/s come to two tasks for ten minutes: as the tasks were, they lag from the second minute on."""
    backlog = [200.0 * 60 * (at + 1) for at in range(10)]
    lag = [waits / (2 * P) for waits in backlog]
    rows: list[float | None] = [200.0] * 10
    # The first minute has no minute before it, so what came in is not known to be more than what was read.
    found = recorded(steady([100.0, *rows], backlog_records=[0.0, *backlog], lag_seconds=[0.0, *lag]))
    assert replay.measured(found).slo_minutes_missed == 9
    assert replay.model_of_what_ran(found) == replay.measured(found)


def test_a_policy_that_grows_misses_less_and_takes_more() -> None:
    calm: list[float | None] = [150.0] * 60
    rows: list[float | None] = [*calm, *[500.0] * 60]
    found = recorded(steady(rows))
    acting, advising = (replay.model_of(found, Policy.model_validate({"mode": mode})) for mode in ("act", "advise"))
    assert advising.actions == 0
    assert advising.slo_minutes_missed == 59
    assert acting.actions >= 1
    assert acting.slo_minutes_missed < 20
    assert acting.task_hours > advising.task_hours


def test_what_people_have_set_is_not_changed() -> None:
    rows: list[float | None] = [150.0, *[500.0] * 60]
    found = recorded(steady(rows, tasks_running=[2.0] * 30 + [3.0] * 31), pinned=frozenset(["task_count"]))
    assert replay.model_of(found, Policy()) == replay.model_of_what_ran(found)


def test_decisions_are_compared_on_their_own_inputs() -> None:
    decisions = [
        stored("increase_tasks", {"task_count": 32}),
        stored("increase_tasks", {"task_count": 8}),
        StoredDecision(NOW, "none", None, "nothing to do", {"of": "another release"}),
    ]
    same = DecisionInputs.model_validate(
        {name: decisions[0].inputs[name] for name in ("symptoms", "config", "state", "policy", "now")}
    ).decide()
    decisions[0] = decisions[0]._replace(action=same.action.value, change=same.change)
    found = recorded(steady([100.0]), decisions)
    assert replay.compare_decisions(found, Policy()) == (2, 1)
    assert replay.compare_decisions(found, Policy(early_share=1.0, cooldown_seconds=1e9)) == (2, 2)


def test_what_was_known_is_that_of_the_newest_decision_and_not_what_was_measured_then() -> None:
    before = stored("none", None, ago=timedelta(hours=1), declared_task_count=3)
    later = stored("none", None, ago=-timedelta(minutes=5), declared_task_count=5)
    found = recorded(steady([100.0] * 10), [before, later])
    assert [found.known_at(NOW + at * MINUTE).state.declared_task_count for at in (0, 4, 5, 9)] == [3, 3, 5, 5]
    assert found.known[0].state.rate is found.known[0].state.load is None
    assert [one.at for one in found.decisions] == [later.at]
    assert replay.model_of(found, Policy()).task_hours == pytest.approx((2 + 4 * 3 + 5 * 5) / 60, abs=4 / 60)


def test_the_cost_of_a_rescale_is_that_of_the_jobs_last_one() -> None:
    assert cost_of(None) is None
    assert cost_of({"total": 9.0, "copy_state": 4.0, "level": 1.0}) == RescaleCost(lead_seconds=5.0, down_seconds=4.0)


@pytest.mark.parametrize(
    ("policy", "field", "rule"),
    [
        ({"headroom": -1}, "policy.headroom", "greater_than_equal"),
        ({"headrom": 1}, "policy.headrom", "unknown_field"),
        ({"mode": "dream"}, "policy.mode", "enum"),
        ({"ahead_minutes": 10**12}, "policy.ahead_minutes", "less_than_equal"),
        ({"load_minutes": 61}, "policy.load_minutes", "less_than_equal"),
        ({"cooldown_seconds": 1e300}, "policy.cooldown_seconds", "less_than_equal"),
        ({"peak_hours": [{"start": "08:00", "end": "08:00"}]}, "policy.peak_hours.0.end", "value_error"),
    ],
)
def test_a_policy_that_breaks_a_rule_is_refused_by_its_field(policy: dict[str, Any], field: str, rule: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        read_policy(policy)
    assert (refused.value.field, refused.value.rule) == (field, rule)


@pytest.mark.parametrize(
    ("since_minutes", "until_minutes", "rule"),
    [
        (0, None, "before_until"),
        (10, 20, "before_until"),
        (15 * 1440, None, "most_days"),
        (-3000, None, "not_in_future"),
        (14_000_000, None, "not_in_future"),
        (10, 14_000_000, "not_in_future"),
    ],
)
def test_times_that_are_none_are_refused(since_minutes: int, until_minutes: int | None, rule: str) -> None:
    until = None if until_minutes is None else NOW - until_minutes * MINUTE
    asked = ReplayRequest(policy={}, since=NOW - since_minutes * MINUTE, until=until)
    with pytest.raises(InvalidConfig) as refused:
        read_times(asked, NOW)
    assert refused.value.rule == rule


def test_by_default_the_last_day_is_replayed_and_nothing_of_the_future() -> None:
    assert read_times(ReplayRequest(policy={}), NOW) == (NOW - timedelta(days=1), NOW)
    asked = ReplayRequest(policy={}, since=NOW - timedelta(hours=1), until=NOW + timedelta(hours=2))
    assert read_times(asked, NOW) == (NOW - timedelta(hours=1), NOW)
