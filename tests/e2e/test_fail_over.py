"""Containers that die, and containers that only seem dead. See also `test_chaos` for one that sleeps past its lease
among other faults."""

from __future__ import annotations

import time

import pytest

from penstock.control.process import wait_until
from penstock.local.processes import children_with
from penstock.local.services import HOST_MODULE, task_manager_name
from penstock.local.stack import LocalStack
from tests.bench import failover
from tests.support.chaos.freezing import frozen
from tests.support.stack.rows import RowJob

SHOWN_S, BACK_S = 15.0, 90.0
"""So soon it is shown that a task is gone."""
GONE = ("lost", "crashed", "starting")
ALL_MANAGERS = {task_manager_name(1), task_manager_name(2)}


@pytest.mark.long
def test_the_tasks_of_a_dead_container_go_on_elsewhere(stack: LocalStack, rows: RowJob):
    """1. Rows are counted, and copied. 2. The Task Manager with the most tasks is killed and stays away. 3. Each of its
    tasks commits elsewhere, and every row is counted once. 4. The Task Manager comes back as a new and empty container.
    Rows that come then are there once."""
    rows.send_and_wait()
    seconds = failover.measure(stack, kills=1, job_count=1)
    assert seconds
    assert min(seconds) > 0
    with stack.client() as client:
        assert {view.state for view in client.containers().containers} == {"live"}
    rows.send_and_wait()
    rows.assert_exact()
    assert rows.containers() <= ALL_MANAGERS


@pytest.mark.long
def test_a_killed_spark_host_is_replaced_and_nothing_is_lost(stack: LocalStack, rows: RowJob):
    rows.send_and_wait()
    name = rows.containers().pop()
    hosts = children_with(stack.supervisor.pid(name), [HOST_MODULE])
    assert hosts
    tasks = _tasks_on(stack, rows, name)
    for host in hosts:
        host.kill()
    _assert_shown_as_gone(stack, rows, tasks)
    rows.send_and_wait()
    rows.assert_exact()


@pytest.mark.long
def test_a_killed_task_manager_keeps_its_shards_when_it_is_back_in_time(stack: LocalStack, rows: RowJob):
    rows.send_and_wait()
    name = rows.containers().pop()
    stack.supervisor.take_down(name)
    stack.supervisor.bring_up(name)
    rows.send_and_wait()
    rows.assert_exact()
    wait_until(lambda: name in rows.containers(), 60, f"{name} to run its tasks again")


@pytest.mark.long
def test_the_tasks_of_a_killed_task_manager_are_shown_as_lost(stack: LocalStack, rows: RowJob) -> None:
    """Before its shards go to others, and never as if nothing were known."""
    rows.send_and_wait()
    name = rows.containers().pop()
    tasks = _tasks_on(stack, rows, name)
    stack.supervisor.take_down(name)
    try:
        _assert_shown_as_gone(stack, rows, tasks)
    finally:
        stack.supervisor.bring_up(name)
        stack.supervisor.wait_ready(name)
    rows.send_and_wait()
    rows.assert_exact()


@pytest.mark.long
def test_a_zombie_container_commits_nothing(stack: LocalStack, rows: RowJob):
    """1. Rows flow. 2. A Task Manager, its hosts and their JVMs are stopped (SIGSTOP), past the lease. 3. The other
    container takes over and every row arrives. 4. The zombie goes on (SIGCONT), with rows to read that its tasks have
    not read. 5. No row is there twice; the container is back as a new one."""
    rows.send_and_wait()
    name = rows.containers().pop()
    with frozen(stack.supervisor.pid(name)):
        rows.send_and_wait()
        wait_until(lambda: rows.containers() == ALL_MANAGERS - {name}, 60, "the other container to take over")
        rows.send(40)
    rows.send_and_wait()
    rows.assert_exact()
    wait_until(lambda: _is_live(stack, name), BACK_S, f"{name} to be back")
    rows.send_and_wait()
    rows.assert_exact()


def _tasks_on(stack: LocalStack, job: RowJob, container: str) -> set[int]:
    with stack.client() as client:
        found = {task.index for task in client.tasks(job.name).tasks if task.container == container}
    assert found
    return found


def _assert_shown_as_gone(stack: LocalStack, job: RowJob, tasks: set[int]) -> None:
    """Right after a kill. Each of the tasks is shown as gone, or as starting again, in time; until then as running."""
    killed_at, left = time.monotonic(), set(tasks)

    def all_shown() -> bool:
        with stack.client() as client:
            states = {task.index: task.state for task in client.tasks(job.name).tasks if task.index in left}
        assert set(states.values()) <= {*GONE, "running"}, states
        left.difference_update(index for index, state in states.items() if state in GONE)
        return not left

    wait_until(all_shown, SHOWN_S, f"the tasks {tasks} of {job.name} to be shown as gone", poll_s=0.05)
    print(f"shown as gone after {time.monotonic() - killed_at:.1f} s")


def _is_live(stack: LocalStack, name: str) -> bool:
    with stack.client() as client:
        return any(c.name == name and c.state == "live" for c in client.containers().containers)
