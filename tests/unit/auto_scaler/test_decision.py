"""Algorithm 2 as tables, and what must hold for any inputs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.model import JobConfig
from services.auto_scaler.decide.decision import DecisionInputs, replay
from services.auto_scaler.decide.explain import as_stored
from services.auto_scaler.decide.model import Action, DayHistory, Fleet, JobUpdate, ScalerState, Symptom
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.decide.symptoms import JobSymptoms
from tests.support.auto_scaler import GIB, MIB, NOW, QUIET, change, decided, load, past, rate, state, symptoms
from tests.support.auto_scaler import job as config

LAGGING = symptoms(lag=91.0)
TASKS = {
    "doubled": (LAGGING, config(task_count=2), state(), Action.INCREASE_TASKS, 4),
    "one more at least": (LAGGING, config(task_count=1), state(), Action.INCREASE_TASKS, 2),
    "not beyond the key groups": (LAGGING, config(5, key_groups=8), state(), Action.INCREASE_TASKS, 8),
    "no more than carries more": (LAGGING, config(3, key_groups=8), state(), Action.INCREASE_TASKS, 4),
    "as many as it takes to carry more": (LAGGING, config(4, key_groups=9), state(), Action.INCREASE_TASKS, 5),
    "more would carry no more": (LAGGING, config(4, key_groups=8, max_task_count=6), state(), Action.NONE, None),
    "not beyond the limit": (LAGGING, config(task_count=4, max_task_count=6), state(), Action.INCREASE_TASKS, 6),
    "at the key groups": (LAGGING, config(8, key_groups=8), state(), Action.NONE, None),
    "at the limit of 32": (LAGGING, config(32), state(), Action.NONE, None),
    "at the limit": (LAGGING, config(task_count=2, max_task_count=2), state(), Action.NONE, None),
    "half of the SLO is no lag": (symptoms(lag=45.0), config(), state(), Action.NONE, None),
    "more than half is answered early": (symptoms(lag=46.0), config(), state(), Action.INCREASE_TASKS, 4),
    "a longer SLO": (LAGGING, config(slo={"max_lag_seconds": 182}), state(), Action.NONE, None),
    "imbalanced, but no key group is measured": (
        symptoms(lag=91.0, imbalance=0.6),
        config(),
        state(),
        Action.INCREASE_TASKS,
        4,
    ),
    "imbalance unknown": (symptoms(lag=91.0, imbalance=None), config(), state(), Action.INCREASE_TASKS, 4),
    "lag before memory": (symptoms(lag=91.0, out_of_memory=True), config(), state(), Action.INCREASE_TASKS, 4),
    "set by a higher layer": (LAGGING, config(), state(pinned=["task_count"]), Action.NONE, None),
}


@pytest.mark.parametrize(("found", "job", "known", "action", "task_count"), TASKS.values(), ids=TASKS.keys())
def test_lag(found: JobSymptoms, job: JobConfig, known: ScalerState, action: Action, task_count: int | None) -> None:
    decision = decided(found, job, known)
    assert decision.action is action
    assert decision.change == (None if task_count is None else {"task_count": task_count})


OUT = symptoms(out_of_memory=True)
MEMORY = {
    "half as much again": (400 * MIB, 8 * GIB, Action.INCREASE_MEMORY, 600 * MIB),
    "up to a fifth of a container": (1200 * MIB, 8 * GIB, Action.INCREASE_MEMORY, int(1.6 * GIB)),
    "no container known": (400 * MIB, None, Action.NONE, None),
}


@pytest.mark.parametrize(("memory", "container", "action", "wanted"), MEMORY.values(), ids=MEMORY.keys())
@pytest.mark.parametrize("lag", [0.0, None])
def test_out_of_memory(
    memory: int, container: int | None, action: Action, wanted: int | None, lag: float | None
) -> None:
    job = config(resources={"memory_bytes": memory})
    decision = decided(symptoms(lag=lag, out_of_memory=True), job, state(container_memory_bytes=container))
    assert (decision.symptom, decision.action) == (Symptom.OUT_OF_MEMORY, action)
    assert decision.change == (None if wanted is None else {"resources": {"memory_bytes": wanted}})


ISOLATED = {
    "a small process has the smallest heap, which grows": (400 * MIB, 8 * GIB, 1068 * MIB, "512 MiB and 768 MiB"),
    "a large one grows as a whole": (1200 * MIB, 16 * GIB, 1800 * MIB, "900 MiB and 1,350 MiB"),
}


@pytest.mark.parametrize(("memory", "container", "wanted", "heaps"), ISOLATED.values(), ids=ISOLATED.keys())
def test_the_heap_of_an_isolated_task_grows(memory: int, container: int, wanted: int, heaps: str) -> None:
    job = config(isolation="process", resources={"memory_bytes": memory})
    decision = decided(OUT, job, state(container_memory_bytes=container))
    assert decision.change == {"resources": {"memory_bytes": wanted}}
    assert decision.reason.endswith(f"of which {heaps} are heap")


def test_an_isolated_task_whose_heap_cannot_grow_gets_less_to_do() -> None:
    """A fifth of the container is 800 MiB, and a process of 812 MiB or less has the smallest heap."""
    job = config(isolation="process", resources={"memory_bytes": 400 * MIB})
    decision = decided(OUT, job, state(container_memory_bytes=4000 * MIB))
    assert (decision.action, decision.change) == (Action.INCREASE_TASKS, {"task_count": 4})
    assert decision.reason.startswith("a task ran out of memory; it may have no more than 800 MiB")


def test_a_task_that_cannot_have_more_memory_gets_less_to_do() -> None:
    decision = decided(OUT, config(resources={"memory_bytes": int(1.6 * GIB)}), state())
    assert (decision.action, decision.change) == (Action.INCREASE_TASKS, {"task_count": 4})


def test_memory_set_by_a_higher_layer_is_left() -> None:
    decision = decided(OUT, config(), state(pinned=["resources.memory_bytes"]))
    assert decision.action is Action.NONE
    assert [limit.partition(",")[0] for limit in decision.limits] == ["resources.memory_bytes is set by a higher layer"]


HOLDS = {
    "not converged": ({"converged": False}, False),
    "restarted just now": ({"running_since": NOW - timedelta(seconds=299)}, False),
    "restarted long enough ago": ({"running_since": NOW - timedelta(seconds=300)}, True),
    "acted just now": ({"last_action_at": NOW - timedelta(seconds=299)}, False),
    "acted often": ({"actions_last_hour": 6}, False),
    "acted less often": ({"actions_last_hour": 5}, True),
    "many jobs are changed already": ({"fleet": Fleet(jobs=100, lagging=1, unmeasured=0, actions=50)}, False),
    "some jobs are changed already": ({"fleet": Fleet(jobs=100, lagging=1, unmeasured=0, actions=49)}, True),
    "acted long enough ago": ({"last_action_at": NOW - timedelta(seconds=300)}, True),
}


@pytest.mark.parametrize(("values", "acts"), HOLDS.values(), ids=HOLDS.keys())
@pytest.mark.parametrize("found", [LAGGING, OUT])
def test_an_action_is_given_time_to_show(values: dict[str, Any], acts: bool, found: JobSymptoms) -> None:
    assert (decided(found, config(), state(**values)).action is not Action.NONE) is acts


GROWN = {"task_count": 8, "resources": {"memory_bytes": 800 * MIB}}
LAGGED = DayHistory(minutes_measured=1440, minutes_lagging=1, minutes_out_of_memory=0)
CRASHED = DayHistory(minutes_measured=1440, minutes_lagging=0, minutes_out_of_memory=1)
GAPS = DayHistory(minutes_measured=1200, minutes_lagging=0, minutes_out_of_memory=0)
DECREASES = {
    "a quarter of the tasks": (GROWN, {"day": QUIET}, {"task_count": 6}),
    "not below what is declared": (GROWN, {"day": QUIET, "declared_task_count": 7}, {"task_count": 7}),
    "memory when the tasks are as declared": (
        GROWN,
        {"day": QUIET, "declared_task_count": 8},
        {"resources": {"memory_bytes": 600 * MIB}},
    ),
    "memory when the tasks are pinned": (
        GROWN,
        {"day": QUIET, "pinned": ["task_count"]},
        {"resources": {"memory_bytes": 600 * MIB}},
    ),
    "memory not below what is declared": (
        {"resources": {"memory_bytes": 450 * MIB}},
        {"day": QUIET},
        {"resources": {"memory_bytes": 400 * MIB}},
    ),
    "nothing was added": ({}, {"day": QUIET}, None),
    "lag within the day": (GROWN, {"day": LAGGED}, None),
    "out of memory within the day": (GROWN, {"day": CRASHED}, None),
    "too little known of the day": (GROWN, {"day": GAPS}, None),
    "nothing known of the day": (GROWN, {"day": None}, None),
    "acted half an hour ago": (GROWN, {"day": QUIET, "last_action_at": NOW - timedelta(seconds=1799)}, None),
}


@pytest.mark.parametrize(("overrides", "values", "change"), DECREASES.values(), ids=DECREASES.keys())
def test_decrease(overrides: dict[str, Any], values: dict[str, Any], change: dict[str, Any] | None) -> None:
    decision = decided(symptoms(), config(**overrides), state(memory_used_bytes=100 * MIB, **values))
    assert (decision.symptom, decision.change) == (Symptom.NONE, change)


def test_unknown_lag_is_no_health() -> None:
    decision = decided(symptoms(lag=None), config(**GROWN), state(day=QUIET))
    assert (decision.symptom, decision.action) == (Symptom.UNKNOWN, Action.NONE)


UNKNOWN, RATES = st.none(), st.floats(0, 1e6)
INPUTS = st.builds(
    DecisionInputs,
    symptoms=st.builds(
        JobSymptoms,
        tasks_expected=st.just(4),
        tasks_measured=st.integers(0, 4),
        time_lagged_seconds=st.none() | st.floats(0, 1e9),
        lag_basis=st.just("bytes"),
        imbalance=st.none() | st.floats(0, 10),
        out_of_memory=st.booleans(),
        processed_rows_per_second=st.none() | st.floats(0, 1e6),
        largest_backlog_share=st.none() | st.floats(0, 1),
    ),
    config=st.builds(
        config,
        task_count=st.integers(1, 6),
        key_groups=st.just(8),
        resources=st.builds(dict, memory_bytes=st.integers(64 * MIB, 8 * GIB)),
    ),
    state=st.builds(
        ScalerState,
        converged=st.booleans(),
        running_since=st.sampled_from([NOW - timedelta(days=1), NOW]),
        last_action_at=st.none() | st.just(NOW),
        declared_task_count=st.integers(1, 6),
        declared_memory_bytes=st.integers(64 * MIB, 8 * GIB),
        pinned=st.frozensets(st.sampled_from(["task_count", "resources.memory_bytes"])),
        container_memory_bytes=st.none() | st.integers(MIB, 64 * GIB),
        memory_used_bytes=st.none() | st.integers(0, 8 * GIB),
        day=st.none() | st.sampled_from([QUIET, LAGGED, GAPS]),
        rate=st.none() | st.builds(rate, st.floats(0.01, 1e6), is_lower_bound=st.booleans()),
        load=st.none()
        | st.builds(load, st.floats(0, 1e6), st.none() | st.floats(0, 1e9), st.none() | st.floats(-9, 9)),
        workload=st.none()
        | st.builds(past, st.none() | st.just(100.0), soon=st.floats(0, 1e6), days=st.integers(0, 14)),
        last_change=st.none()
        | st.builds(change, st.sampled_from(Action), st.integers(1, 8), st.integers(1, 8), lag_seconds=st.just(100.0)),
        update=st.none() | st.builds(JobUpdate, at=st.just(NOW - timedelta(minutes=20)), author=st.just("ann")),
    ),
    policy=st.just(Policy()),
    now=st.just(NOW),
)


@given(INPUTS)
def test_any_decision_can_be_replayed_from_what_is_stored(inputs: DecisionInputs) -> None:
    decision = inputs.decide()
    stored = orjson.loads(orjson.dumps(as_stored(inputs, decision)))
    assert replay(stored) == decision


@given(INPUTS)
def test_any_change_keeps_within_bounds_and_changes_something(inputs: DecisionInputs) -> None:
    decision = inputs.decide()
    if decision.change is None:
        return
    job, known = inputs.config, inputs.state
    tasks = decision.change.get("task_count", job.task_count)
    memory = decision.change.get("resources", {}).get("memory_bytes", job.resources.memory_bytes)
    assert (tasks, memory) != (job.task_count, job.resources.memory_bytes)
    assert tasks <= 8
    assert tasks >= min(job.task_count, known.declared_task_count)
    assert memory >= min(job.resources.memory_bytes, known.declared_memory_bytes)
    assert not (tasks != job.task_count and "task_count" in known.pinned)
    assert not (memory != job.resources.memory_bytes and "resources.memory_bytes" in known.pinned)
