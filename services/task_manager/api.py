"""The HTTP side: orders of the Shard Manager, host tasks, what runs here, health and metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import FastAPI, Query

from penstock.config.declare import Counted, Name
from penstock.config.model import JobConfig
from penstock.control.errors import Conflict, NotFound, Unavailable
from penstock.identity.process import ProcessIdentity
from penstock.tasks.analysis import AnalysisReport
from penstock.tasks.host_task import HostTask
from penstock.tasks.spec import task_id
from penstock.wire.analyses import AnalysisCall
from penstock.wire.app import create_internal_app
from penstock.wire.cluster import ShardAnswers, ShardOrders, as_json
from penstock.wire.host_tasks import MOST_WAIT_SECONDS, HostTaskAnswer
from penstock.wire.task_logs import LARGEST_PART_BYTES, SMALLEST_PART_BYTES, TaskLog
from services.task_manager.container import Container
from services.task_manager.hosts.host_logs import HostLogs
from services.task_manager.reporting import Summary, host_labels

# Killing a host takes a moment after the deadline; the caller waits a little longer than this.
_KILL_SECONDS = 2.0
Missing = Callable[[JobConfig, bool], AnalysisReport]
AskedContainer = Annotated[Name | None, Query(alias="container")]
Offset = Annotated[Counted | None, Query()]
Limit = Annotated[int, Query(ge=SMALLEST_PART_BYTES, le=LARGEST_PART_BYTES)]
WaitSeconds = Annotated[float, Query(ge=0, le=MOST_WAIT_SECONDS)]


def build_app(
    container: Container,
    identity: ProcessIdentity,
    *,
    open_metrics: bool = False,
    missing: Missing = lambda config, has_time: AnalysisReport(),
    logs: HostLogs | None = None,
) -> FastAPI:
    """The routes of one container's Task Manager. `missing`: what a job names that the container does not have; the
    second argument: whether there is time to ask Kafka, too. `logs`: of its hosts; None: it has none to read."""
    app = create_internal_app(
        "task_manager",
        ready=lambda: readiness(container.summary()),
        identity=identity,
        open_metrics=open_metrics,
    )
    _add_orders(app, container)
    _add_host_tasks(app, container, identity.caller.container)
    _add_analyses(app, container, missing)
    _add_logs(app, logs)

    @app.get("/v1/tasks", tags=["tasks"])
    def tasks() -> dict[str, Any]:
        """What runs here, with progress."""
        return {**as_json(container.report()), **summary_json(container.summary())}

    return app


def _add_orders(app: FastAPI, container: Container) -> None:
    @app.post("/v1/shards/drop", tags=["shards"])
    def drop_shards(order: ShardOrders) -> ShardAnswers:
        """DROP_SHARD: answers when the tasks of the shards have stopped or were killed."""
        return container.await_stopped(order, container.drop(order), order.deadline_seconds + _KILL_SECONDS)

    @app.post("/v1/shards/add", tags=["shards"])
    def add_shards(order: ShardOrders) -> ShardAnswers:
        """ADD_SHARD: answers at once."""
        return container.add(order)


def _add_host_tasks(app: FastAPI, container: Container, name: str | None) -> None:
    @app.put("/v1/host-tasks/{key}", tags=["host tasks"])
    def run_host_task(
        key: str, task: HostTask, wait_seconds: WaitSeconds = 0.0, asked: AskedContainer = None
    ) -> HostTaskAnswer:
        """Has a Spark host carry out a host task, or answers how far it is."""
        _require_asked(name, asked)
        if key != task.key:
            raise Conflict(f"the path has the key {key}, the body {task.key}", field="key", rule="as_in_path")
        return container.host_task(task, wait_seconds)

    @app.delete("/v1/host-tasks/{key}", tags=["host tasks"], status_code=204)
    def cancel_host_task(key: str, leader_epoch: Counted, asked: AskedContainer = None) -> None:
        """Drops a host task that has not begun. One under way claims no more checkpoints."""
        _require_asked(name, asked)
        container.cancel_host_task(key, leader_epoch)


def _require_asked(name: str | None, asked: str | None) -> None:
    """Another container may have had the address before, and its calls may be passed on to this one. None: a State
    Syncer of the release before asks."""
    if asked not in (None, name):
        raise Unavailable(f"this is the container {name}, not {asked}")


def _add_analyses(app: FastAPI, container: Container, missing: Missing) -> None:
    @app.post("/v1/analyses", tags=["analyses"])
    def analyse(call: AnalysisCall) -> AnalysisReport:
        """Has a Spark host say what is wrong with a job. Nothing of the job is started or made.

        Without a host that answers, what the container does not have is told all the same. Who lets a host be started
        has time for Kafka's answer, too.
        """
        try:
            return container.analyse(call)
        except Unavailable as error:
            found = missing(call.request.config, call.start_host)
            if not (found.problems or found.logins):
                raise
            return found.model_copy(update={"unchecked": (*found.unchecked, error.detail)})


def _add_logs(app: FastAPI, logs: HostLogs | None) -> None:
    @app.get("/v1/tasks/{job}/{index}/log", tags=["tasks"])
    def task_log(job: Name, index: int, limit_bytes: Limit, host: Name | None = None, offset: Offset = None) -> TaskLog:
        """A part of the log of the host in which a task runs, or ran last."""
        if logs is None:
            raise NotFound("this container keeps no logs", field="task", rule="known")
        return logs.part(task_id(job, index), host=host, offset=offset, limit_bytes=limit_bytes)


def readiness(summary: Summary) -> dict[str, Any]:
    """For `/readyz`: ready when it may run tasks and knows which. Raises Unavailable."""
    if summary.commit_number is None:
        raise Unavailable("no task specs yet, neither from the Task Service nor from the disk")
    if summary.lease_seconds_left <= 0:
        raise Unavailable("no lease yet, neither from the Shard Manager nor by the store")
    return summary_json(summary)


def summary_json(summary: Summary) -> dict[str, Any]:
    """The container for people: shards, hosts, lease."""
    return {
        "incarnation": summary.incarnation,
        "lease_seconds_left": round(summary.lease_seconds_left, 3),
        "commit_number": summary.commit_number,
        "version": summary.version,
        "shards": dict(summary.shards),
        "waiting": summary.waiting,
        "hosts": [
            {
                "name": host.name,
                "phase": host.phase.value,
                "tasks": sum(task.host == host.name for task in summary.observed.tasks.values()),
                **host_labels(host.key),
            }
            for host in summary.observed.hosts.values()
        ],
    }
