"""Plans: what a write would do to a running job."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.model import ChangeKind
from penstock.config.validate import check_merged
from penstock.tasks.rates import Rates
from services.job_service.plans import plan

BASE: dict[str, Any] = {
    "query": {"sql": "SELECT * FROM flights"},
    "inputs": {"flights": {"topic": "flights", "key_groups": 8, "value_schema": "a INT"}},
    "output": {"type": "kafka", "topic": "clean"},
    "task_count": 2,
}
TWO = ("etl/0", "etl/1")
FOUR = (*TWO, "etl/2", "etl/3")
STOPPED = {"desired_state": "stopped"}
RESCALED = (
    "copy_state",
    "quiesce_tasks",
    "stop_tasks",
    "await_stopped",
    "redistribute",
    "seal",
    "commit",
    "start_tasks",
)


@pytest.mark.parametrize(
    ("running", "change", "kind", "steps", "touched", "downtime"),
    [
        ({}, {}, ChangeKind.NONE, ("commit",), (), 0.0),
        ({}, {"owner": "bob"}, ChangeKind.NONE, ("commit",), (), 0.0),
        ({}, {"priority": 3}, ChangeKind.LIVE, ("commit", "apply_to_tasks"), TWO, 0.0),
        ({}, {"trigger_interval_seconds": 1}, ChangeKind.RESTART, ("commit", "restart_tasks"), TWO, None),
        ({}, STOPPED, ChangeKind.RESTART, ("commit", "stop_tasks"), TWO, None),
        (STOPPED, {"desired_state": "running"}, ChangeKind.RESTART, ("commit", "start_tasks"), TWO, 0.0),
        (
            {},
            {"task_count": 4},
            ChangeKind.RESCALE,
            RESCALED,
            FOUR,
            None,
        ),
        (STOPPED, {"task_count": 4}, ChangeKind.RESCALE, ("await_stopped", "redistribute", "seal", "commit"), (), 0.0),
        (
            {},
            {"task_count": 4} | STOPPED,
            ChangeKind.RESCALE,
            ("stop_tasks", "await_stopped", "redistribute", "seal", "commit"),
            TWO,
            None,
        ),
        ({}, {"output_mode": "update"}, ChangeKind.FORBIDDEN, (), (), None),
    ],
)
def test_the_way_from_running_to_expected(
    running: dict[str, Any],
    change: dict[str, Any],
    kind: ChangeKind,
    steps: tuple[str, ...],
    touched: tuple[str, ...],
    downtime: float | None,
) -> None:
    runs = check_merged({**BASE, **running}).model_dump(mode="json")
    found = plan(
        "etl", "oncall", 0, running=runs, before={**BASE, **running}, after=check_merged({**BASE, **running, **change})
    )
    assert (found.kind, found.steps, found.tasks_touched) == (kind.name.lower(), list(steps), list(touched))
    assert found.downtime_seconds == downtime
    assert found.allowed == (kind is not ChangeKind.FORBIDDEN)


@pytest.mark.parametrize(("change", "downtime"), [({"task_count": 4}, 1.5), ({"trigger_interval_seconds": 1}, None)])
def test_what_the_last_rescale_took_is_expected_of_the_next(change: dict[str, Any], downtime: float | None) -> None:
    found = plan(
        "etl", "oncall", 0, running=BASE, before=BASE, after=check_merged({**BASE, **change}), rescale_seconds=1.5
    )
    assert found.downtime_seconds == downtime


def test_the_catch_up_follows_from_downtime_and_rates() -> None:
    rates = Rates(100.0, 300.0, 0)
    after = check_merged({**BASE, "task_count": 4})
    found = plan("etl", "oncall", 0, running=BASE, before=BASE, after=after, rescale_seconds=4.0, rates=rates)
    assert found.catch_up_seconds == 2.0
    assert plan("etl", "oncall", 0, running=BASE, before=BASE, after=after, rates=rates).catch_up_seconds is None


SIZED = {"output": {"type": "kafka", "topic": "clean", "key_groups": 4}}


@pytest.mark.parametrize(
    ("running", "change", "steps"),
    [
        (None, {}, ("initialize_sink", "commit", "start_tasks")),
        (None, STOPPED, ("commit",)),
        (SIZED, {"trigger_interval_seconds": 1}, ("commit", "restart_tasks")),
        (SIZED, {"output": {**SIZED["output"], "topic": "b"}}, ("initialize_sink", "commit", "restart_tasks")),
        (SIZED, {"task_count": 4, "output": {**SIZED["output"], "topic": "b"}}, ("initialize_sink", *RESCALED)),
        (SIZED, {"task_count": 4}, RESCALED),
    ],
)
def test_an_output_that_must_be_made_is_a_step(running: Any, change: dict[str, Any], steps: tuple[str, ...]) -> None:
    runs = None if running is None else check_merged({**BASE, **running}).model_dump(mode="json")
    found = plan(
        "etl", "oncall", 0, running=runs, before={**BASE, **SIZED}, after=check_merged({**BASE, **SIZED, **change})
    )
    assert found.steps == list(steps)


TIMED = {
    "flights": {
        **BASE["inputs"]["flights"],
        "value_schema": "a INT, at TIMESTAMP",
        "event_time_column": "at",
        "watermark_delay": "1 minute",
    }
}


@pytest.mark.parametrize(
    ("more", "change", "said"),
    [
        ({"inputs": TIMED}, {"task_count": 4}, "wait"),
        ({"inputs": TIMED, "completeness": "drop_late"}, {"task_count": 4}, "drop_late"),
        ({"inputs": TIMED}, {"priority": 1}, None),
        ({}, {"task_count": 4}, None),
    ],
)
def test_a_rescale_with_watermarks_says_what_happens_to_late_rows(more: Any, change: Any, said: str | None) -> None:
    before = {**BASE, **more}
    assert (
        plan("etl", "oncall", 0, running=before, before=before, after=check_merged({**before, **change})).completeness
        == said
    )


def test_a_change_that_is_not_in_force_yet_counts_for_the_kind_but_not_for_the_fields() -> None:
    before = {**BASE, "trigger_interval_seconds": 1}
    found = plan("etl", "oncall", 0, running=BASE, before=before, after=check_merged({**before, "priority": 3}))
    assert found.kind == "restart"
    assert [change.field for change in found.fields] == ["priority"]


def test_a_job_that_never_ran_just_starts() -> None:
    found = plan("etl", "oncall", 0, running=None, before=BASE, after=check_merged({**BASE, "output_mode": "update"}))
    assert (found.allowed, found.steps, found.tasks_touched) == (True, ["commit", "start_tasks"], list(TWO))
    assert found.catch_up_seconds is None


def test_a_stopped_job_that_never_ran_starts_nothing() -> None:
    found = plan("etl", "oncall", 0, running=None, before=BASE, after=check_merged({**BASE, **STOPPED}))
    assert (found.steps, found.tasks_touched) == (["commit"], [])


@pytest.mark.parametrize(
    ("running", "change", "waves"),
    [
        ({}, {}, [("etl/0",), ("etl/1",)]),
        ({"task_count": 4}, {}, [("etl/0",), ("etl/1", "etl/2"), ("etl/3",)]),
        ({}, {"task_count": 4}, []),
        ({}, STOPPED, []),
        (STOPPED, {"desired_state": "running"}, []),
    ],
)
def test_a_package_goes_out_in_waves(running: dict[str, Any], change: dict[str, Any], waves: list[Any]) -> None:
    runs = check_merged({**BASE, **running}).model_dump(mode="json")
    after = check_merged({**runs, **change, "package": {"version": "2"}})
    found = plan("etl", "oncall", 0, running=runs, before=runs, after=after, rollout_share=0.5)
    assert found.waves == [list(wave) for wave in waves]
    assert (found.steps == [f"wave_{n}" for n in range(1, len(waves) + 1)]) == bool(waves)
