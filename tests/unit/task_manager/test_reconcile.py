"""`reconcile` itself: a table of single decisions, and what holds for any input."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.cluster import TaskState
from services.task_manager.actions import (
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
from services.task_manager.model import Crash, HostPhase, HostView, Limits, TaskView, WantedTask
from services.task_manager.placement import DEFAULT_KEY
from services.task_manager.reconcile import Running, Wanted, reconcile
from tests.support.task_manager import spec

NOW = 1000.0
LIMITS = Limits(warm_hosts=0)
SPEC = spec()
LIVE = spec(revision=2, priority=3)
NOTED = spec(revision=2, owner="someone")
CHANGED = spec(revision=2, trigger_interval_seconds=1.0)


def wanted(made: object = SPEC, *, epoch: int = 1, lease: bool = True, deadline: float | None = None) -> Wanted:
    tasks = {SPEC.task_id: WantedTask(made, 3, epoch)} if made is not None else {}
    return Wanted(tasks, lease, {} if deadline is None else {3: deadline})


def host(name: str = "h", phase: HostPhase = HostPhase.READY, **more: float) -> HostView:
    return HostView(name, DEFAULT_KEY, phase, more.pop("since", NOW - 1), more.pop("idle_since", None), **more)


def running(state: TaskState | None = TaskState.RUNNING, **more: object) -> Running:
    tasks: Mapping[str, TaskView] = {}
    if state is not None:
        tasks = {SPEC.task_id: TaskView(SPEC, 3, 1, state, "h", NOW - 5, **more)}
    return Running(tasks, {"h": host(idle_since=None if tasks else NOW)})


def crashed(kind: str, retry_at: float) -> Running:
    crash = Crash(SPEC, 1, 2, "boom", kind, False, retry_at)
    return Running({}, {"h": host(idle_since=NOW)}, {SPEC.task_id: crash})


def stop(reason: StopReason, kill_at: float) -> list[Action]:
    return [StopTask(SPEC.task_id, reason, kill_at)]


START = [StartTask(SPEC, 3, 1, "h")]


@pytest.mark.parametrize(
    ("given_wanted", "given_running", "actions"),
    [
        pytest.param(wanted(), running(None), START, id="a missing task starts"),
        pytest.param(wanted(lease=False), running(None), [], id="not without a lease"),
        pytest.param(wanted(), Running(), [StartHost(DEFAULT_KEY)], id="first a host"),
        pytest.param(wanted(), Running({}, {"h": host(phase=HostPhase.STARTING)}), [], id="the host is on its way"),
        pytest.param(wanted(), running(), [], id="all is well"),
        pytest.param(wanted(lease=False), running(), stop(StopReason.NO_LEASE, NOW + 10), id="no lease"),
        pytest.param(wanted(None), running(), stop(StopReason.NOT_WANTED, NOW + 30), id="not wanted"),
        pytest.param(wanted(None, deadline=NOW + 4), running(), stop(StopReason.NOT_WANTED, NOW + 4), id="dropped"),
        pytest.param(wanted(epoch=2), running(), stop(StopReason.NEW_EPOCH, NOW + 30), id="a new epoch"),
        pytest.param(wanted(CHANGED), running(), stop(StopReason.RESTART, NOW + 30), id="a restart"),
        pytest.param(
            wanted(CHANGED), running(TaskState.STARTING), stop(StopReason.RESTART, NOW + 30), id="at its start"
        ),
        pytest.param(wanted(CHANGED), running(TaskState.STOPPING, kill_at=NOW + 9), [], id="it is stopping"),
        pytest.param(
            wanted(None, deadline=NOW + 4),
            running(TaskState.STOPPING, kill_at=NOW + 9),
            stop(StopReason.NOT_WANTED, NOW + 4),
            id="it is stopping, and must hurry",
        ),
        pytest.param(
            wanted(),
            running(TaskState.STOPPING, kill_at=NOW),
            [KillHost("h", "flights/0 did not stop in time")],
            id="it did not stop",
        ),
        pytest.param(wanted(LIVE), running(), [ApplyLive(SPEC.task_id, LIVE)], id="a live change"),
        pytest.param(wanted(LIVE), running(TaskState.STARTING), [], id="a live change waits for the start"),
        pytest.param(wanted(LIVE), running(pending_live=LIVE), [], id="a live change is on its way"),
        pytest.param(wanted(), running(live_failed=True), stop(StopReason.RESTART, NOW + 30), id="it was refused"),
        pytest.param(wanted(NOTED), running(), [AdoptRevision(SPEC.task_id, NOTED)], id="bookkeeping"),
        pytest.param(wanted(), crashed("retryable", NOW + 1), [], id="crashed, too early"),
        pytest.param(wanted(), crashed("retryable", NOW), START, id="crashed, time to try"),
        pytest.param(wanted(CHANGED), crashed("broken_task", NOW + 99), [StartTask(CHANGED, 3, 1, "h")], id="mended"),
        pytest.param(wanted(), crashed("fenced", NOW - 99), [], id="fenced under this epoch"),
        pytest.param(wanted(CHANGED), crashed("fenced", NOW), [], id="fenced, whatever the change"),
        pytest.param(wanted(epoch=2), crashed("fenced", NOW), [StartTask(SPEC, 3, 2, "h")], id="fenced, given anew"),
        pytest.param(
            wanted(None), Running({}, {"h": host(idle_since=NOW - 300)}), [EndHost("h", NOW + 10)], id="an idle host"
        ),
        pytest.param(
            wanted(None),
            Running({}, {"h": host(phase=HostPhase.ENDING, idle_since=NOW - 300, kill_at=NOW)}),
            [KillHost("h", "host did not end in time")],
            id="an idle host that stays",
        ),
    ],
)
def test_decisions(given_wanted: Wanted, given_running: Running, actions: list[Action]) -> None:
    assert list(reconcile(given_wanted, given_running, LIMITS, NOW)) == actions


def test_warm_hosts_are_started_before_anything_is_wanted() -> None:
    limits = Limits(warm_hosts=2)
    assert reconcile(Wanted(), Running(), limits, NOW) == (StartHost(DEFAULT_KEY),) * 2
    one = Running({}, {"h": host(phase=HostPhase.STARTING)})
    assert reconcile(Wanted(), one, limits, NOW) == (StartHost(DEFAULT_KEY),)


names = st.integers(0, 5).map(lambda index: f"flights/{index}")
specs = {f"flights/{index}": spec(index=index, task_count=6) for index in range(6)}
wanted_tasks = st.dictionaries(names, st.tuples(st.integers(0, 3), st.integers(1, 2)))
running_tasks = st.dictionaries(
    names,
    st.tuples(st.sampled_from([TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING]), st.sampled_from("ab")),
)


@given(wanted_tasks, running_tasks, st.booleans(), st.integers(1, 4))
def test_what_holds_for_any_input(
    wants: dict[str, tuple[int, int]], runs: dict[str, tuple[TaskState, str]], lease: bool, places: int
) -> None:
    tasks = {name: WantedTask(specs[name], shard, epoch) for name, (shard, epoch) in wants.items()}
    views = {
        name: TaskView(specs[name], 0, 1, state, where, NOW, kill_at=NOW + 5 if state is TaskState.STOPPING else None)
        for name, (state, where) in runs.items()
    }
    hosts = {name: host(name) for name in "ab"}
    limits = Limits(tasks_per_host=places)
    actions = reconcile(Wanted(tasks, lease), Running(views, hosts), limits, NOW)
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
    assert actions == reconcile(Wanted(tasks, lease), Running(views, hosts), limits, NOW)
