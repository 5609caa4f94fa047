"""`reconcile` itself: a table of single decisions, and what holds for any input."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.reports import TaskState
from services.task_manager.decide.actions import (
    Action,
    AdoptRevision,
    ApplyLive,
    EndHost,
    KillHost,
    StartHost,
    StartTask,
    StopReason,
    StopTask,
)
from services.task_manager.decide.host_choice import DEFAULT_KEY
from services.task_manager.decide.model import Crash, DesiredTask, HostPhase, HostView, Limits, Observed, TaskView
from services.task_manager.decide.reconcile import Desired, reconcile
from tests.support.task_manager.world import spec

NOW = 1000.0
LIMITS = Limits(warm_hosts=0)
SPEC = spec()
LIVE = spec(revision=2, priority=3)
NOTED = spec(revision=2, owner="someone")
CHANGED = spec(revision=2, trigger_interval_seconds=1.0)


def desired(made: object = SPEC, *, epoch: int = 1, lease: bool = True) -> Desired:
    tasks = {SPEC.task_id: DesiredTask(made, 3, epoch)} if made is not None else {}
    return Desired(tasks, lease)


def host(name: str = "h", phase: HostPhase = HostPhase.READY, **more: float) -> HostView:
    return HostView(name, DEFAULT_KEY, phase, more.pop("since", NOW - 1), more.pop("idle_since", None), **more)


def observed(state: TaskState | None = TaskState.RUNNING, **more: object) -> Observed:
    tasks: Mapping[str, TaskView] = {}
    if state is not None:
        tasks = {SPEC.task_id: TaskView(SPEC, 3, 1, state, "h", NOW - 5, **more)}
    return Observed(tasks, {"h": host(idle_since=None if tasks else NOW)})


def crashed(kind: str, retry_at: float) -> Observed:
    crash = Crash(SPEC, 1, 2, "boom", kind, False, retry_at)
    return Observed({}, {"h": host(idle_since=NOW)}, {SPEC.task_id: crash})


def stop(reason: StopReason, kill_at: float) -> list[Action]:
    return [StopTask(SPEC.task_id, reason, kill_at)]


START = [StartTask(SPEC, 3, 1, "h")]


@pytest.mark.parametrize(
    ("desired_state", "observed_state", "actions"),
    [
        pytest.param(desired(), observed(None), START, id="a missing task starts"),
        pytest.param(desired(lease=False), observed(None), [], id="not without a lease"),
        pytest.param(desired(), Observed(), [StartHost(DEFAULT_KEY)], id="first a host"),
        pytest.param(desired(), Observed({}, {"h": host(phase=HostPhase.STARTING)}), [], id="the host is on its way"),
        pytest.param(desired(), observed(), [], id="all is well"),
        pytest.param(desired(lease=False), observed(), stop(StopReason.NO_LEASE, NOW + 10), id="no lease"),
        pytest.param(desired(None), observed(), stop(StopReason.NOT_DESIRED, NOW + 30), id="not wanted"),
        pytest.param(
            desired(None),
            observed(kill_at=NOW + 4),
            stop(StopReason.NOT_DESIRED, NOW + 4),
            id="dropped, with a deadline",
        ),
        pytest.param(desired(epoch=2), observed(), stop(StopReason.NEW_EPOCH, NOW + 30), id="a new epoch"),
        pytest.param(desired(CHANGED), observed(), stop(StopReason.RESTART, NOW + 30), id="a restart"),
        pytest.param(
            desired(CHANGED), observed(TaskState.STARTING), stop(StopReason.RESTART, NOW + 30), id="at its start"
        ),
        pytest.param(desired(CHANGED), observed(TaskState.STOPPING, kill_at=NOW + 9), [], id="it is stopping"),
        pytest.param(
            desired(),
            observed(TaskState.STOPPING, kill_at=NOW),
            [KillHost("h", "flights/0 did not stop in time")],
            id="it did not stop",
        ),
        pytest.param(desired(LIVE), observed(), [ApplyLive(SPEC.task_id, LIVE)], id="a live change"),
        pytest.param(desired(LIVE), observed(TaskState.STARTING), [], id="a live change waits for the start"),
        pytest.param(desired(LIVE), observed(pending_live=LIVE), [], id="a live change is on its way"),
        pytest.param(desired(), observed(live_failed=True), stop(StopReason.RESTART, NOW + 30), id="it was refused"),
        pytest.param(desired(NOTED), observed(), [AdoptRevision(SPEC.task_id, NOTED)], id="bookkeeping"),
        pytest.param(desired(), crashed("retryable", NOW + 1), [], id="crashed, too early"),
        pytest.param(desired(), crashed("retryable", NOW), START, id="crashed, time to try"),
        pytest.param(desired(CHANGED), crashed("broken_task", NOW + 99), [StartTask(CHANGED, 3, 1, "h")], id="mended"),
        pytest.param(desired(), crashed("fenced", NOW - 99), [], id="fenced under this epoch"),
        pytest.param(desired(CHANGED), crashed("fenced", NOW), [], id="fenced, whatever the change"),
        pytest.param(desired(epoch=2), crashed("fenced", NOW), [StartTask(SPEC, 3, 2, "h")], id="fenced, given anew"),
        pytest.param(
            desired(None), Observed({}, {"h": host(idle_since=NOW - 300)}), [EndHost("h", NOW + 10)], id="an idle host"
        ),
        pytest.param(
            desired(None),
            Observed({}, {"h": host(phase=HostPhase.ENDING, idle_since=NOW - 300, kill_at=NOW)}),
            [KillHost("h", "host did not end in time")],
            id="an idle host that stays",
        ),
    ],
)
def test_decisions(desired_state: Desired, observed_state: Observed, actions: list[Action]) -> None:
    assert list(reconcile(desired_state, observed_state, LIMITS, NOW)) == actions


def test_warm_hosts_are_started_before_anything_is_wanted() -> None:
    limits = Limits(warm_hosts=2)
    assert reconcile(Desired(), Observed(), limits, NOW) == (StartHost(DEFAULT_KEY),) * 2
    one = Observed({}, {"h": host(phase=HostPhase.STARTING)})
    assert reconcile(Desired(), one, limits, NOW) == (StartHost(DEFAULT_KEY),)


names = st.integers(0, 5).map(lambda index: f"flights/{index}")
specs = {f"flights/{index}": spec(index=index, task_count=6) for index in range(6)}
desired_tasks = st.dictionaries(names, st.tuples(st.integers(0, 3), st.integers(1, 2)))
running_tasks = st.dictionaries(
    names,
    st.tuples(st.sampled_from([TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING]), st.sampled_from("ab")),
)


@given(desired_tasks, running_tasks, st.booleans(), st.integers(1, 4))
def test_what_holds_for_any_input(
    desires: dict[str, tuple[int, int]], runs: dict[str, tuple[TaskState, str]], lease: bool, places: int
) -> None:
    tasks = {name: DesiredTask(specs[name], shard, epoch) for name, (shard, epoch) in desires.items()}
    views = {
        name: TaskView(
            specs[name], 0, 1, state, where, NOW, kill_at=NOW + 5 if state is TaskState.STOPPING else math.inf
        )
        for name, (state, where) in runs.items()
    }
    hosts = {name: host(name) for name in "ab"}
    limits = Limits(tasks_per_host=places)
    actions = reconcile(Desired(tasks, lease), Observed(views, hosts), limits, NOW)
    starts = [action for action in actions if isinstance(action, StartTask)]
    assert lease or not starts
    assert len({action.spec.task_id for action in starts}) == len(starts)
    for action in starts:
        target = tasks[action.spec.task_id]
        assert (action.shard, action.epoch) == (target.shard, target.epoch)
        assert action.spec.task_id not in views
    for name in hosts:
        load = sum(view.host == name for view in views.values())
        assert sum(action.host == name for action in starts) <= max(0, places - load)
    stopped = {action.task_id for action in actions if isinstance(action, StopTask)}
    for name, view in views.items():
        may_run = lease and name in tasks and tasks[name].epoch == view.epoch
        assert (name in stopped) == (not may_run and view.state is not TaskState.STOPPING)
    assert actions == reconcile(Desired(tasks, lease), Observed(views, hosts), limits, NOW)
