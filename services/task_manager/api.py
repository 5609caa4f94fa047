"""The HTTP side: orders of the Shard Manager, work on checkpoints, what runs here, health and metrics."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query

from penstock.control.errors import Conflict, Unavailable
from penstock.tasks.redistribution import GenerationRemoval, RedistributionRequest, SealRequest
from penstock.tasks.savepoint import SavepointRemoval, SavepointRequest
from penstock.tasks.sinks import SinkRequest
from penstock.wire.app import create_app
from penstock.wire.cluster import ShardAnswer, ShardAnswers, ShardOrder, ShardOrders, as_json
from penstock.wire.redistributions import MOST_WAIT_SECONDS, RedistributionAnswer
from services.task_manager.container import Container
from services.task_manager.reporting import host_labels
from services.task_manager.views import Summary

# Killing a host takes a moment after the deadline; the caller waits a little longer than this.
_KILL_SECONDS = 2.0
WaitSeconds = Annotated[float, Query(ge=0, le=MOST_WAIT_SECONDS)]


def build_app(container: Container, *, drop_deadline_seconds: float) -> FastAPI:
    """`drop_deadline_seconds` is for orders of a single shard, which name none."""
    app = create_app("task_manager", ready=lambda: readiness(container.summary()))
    _add_batch_orders(app, container)
    _add_single_orders(app, container, drop_deadline_seconds)
    _add_redistributions(app, container)
    _add_savepoints(app, container)

    @app.get("/v1/tasks", tags=["tasks"])
    def tasks() -> dict[str, Any]:
        """What runs here, with progress."""
        return {**as_json(container.report()), **summary_json(container.summary())}

    return app


def _add_batch_orders(app: FastAPI, container: Container) -> None:
    @app.post("/v1/shards/drop", tags=["shards"])
    def drop_shards(order: ShardOrders) -> ShardAnswers:
        """DROP_SHARD of many: answers when their tasks have stopped, or were killed."""
        return container.await_stopped(order, container.drop(order), order.deadline_seconds + _KILL_SECONDS)

    @app.post("/v1/shards/add", tags=["shards"])
    def add_shards(order: ShardOrders) -> ShardAnswers:
        """ADD_SHARD of many: answers at once."""
        return container.add(order)


def _add_single_orders(app: FastAPI, container: Container, drop_deadline_seconds: float) -> None:
    @app.post("/v1/shards/{shard}/drop", tags=["shards"])
    def drop_shard(shard: int, order: ShardOrder) -> ShardAnswer:
        """DROP_SHARD: answers when the shard's tasks have stopped, or were killed."""
        orders = _as_many(shard, order, drop_deadline_seconds)
        return _as_one(
            shard, container.await_stopped(orders, container.drop(orders), drop_deadline_seconds + _KILL_SECONDS)
        )

    @app.post("/v1/shards/{shard}/add", tags=["shards"])
    def add_shard(shard: int, order: ShardOrder) -> ShardAnswer:
        """ADD_SHARD: answers at once."""
        return _as_one(shard, container.add(_as_many(shard, order, drop_deadline_seconds)))


def _add_redistributions(app: FastAPI, container: Container) -> None:
    @app.put("/v1/redistributions/{job}/{generation}", tags=["redistributions"])
    def redistribute(
        job: str, generation: int, request: RedistributionRequest, wait_seconds: WaitSeconds = 0.0
    ) -> RedistributionAnswer:
        """Writes a generation of a job's checkpoints, or tells how far that is."""
        _require_same("generation", job, generation, request.job, request.target.generation)
        return container.work(request, wait_seconds)

    @app.put("/v1/redistributions/{job}/{generation}/seal", tags=["redistributions"])
    def seal(job: str, generation: int, request: SealRequest, wait_seconds: WaitSeconds = 0.0) -> RedistributionAnswer:
        """Ends a generation for good, or tells how far that is."""
        _require_same("generation", job, generation, request.job, request.layout.generation)
        return container.work(request, wait_seconds)

    @app.put("/v1/redistributions/{job}/{generation}/removal", tags=["redistributions"])
    def remove_generation(
        job: str, generation: int, request: GenerationRemoval, wait_seconds: WaitSeconds = 0.0
    ) -> RedistributionAnswer:
        """Deletes the checkpoints of an old generation, or tells how far that is."""
        _require_same("generation", job, generation, request.job, request.generation)
        return container.work(request, wait_seconds)

    @app.put("/v1/sinks/{job}/{revision}", tags=["sinks"])
    def initialize(
        job: str, revision: int, request: SinkRequest, wait_seconds: WaitSeconds = 0.0
    ) -> RedistributionAnswer:
        """Makes a job's output, or tells how far that is."""
        _require_same("revision", job, revision, request.job, request.revision)
        return container.work(request, wait_seconds)


def _add_savepoints(app: FastAPI, container: Container) -> None:
    @app.put("/v1/savepoints/{job}/{number}", tags=["savepoints"])
    def take_savepoint(
        job: str, number: int, request: SavepointRequest, wait_seconds: WaitSeconds = 0.0
    ) -> RedistributionAnswer:
        """Copies a job's checkpoints, or tells how far that is."""
        _require_same("number", job, number, request.job, request.number)
        return container.work(request, wait_seconds)

    @app.put("/v1/savepoints/{job}/{number}/removal", tags=["savepoints"])
    def remove_savepoint(
        job: str, number: int, request: SavepointRemoval, wait_seconds: WaitSeconds = 0.0
    ) -> RedistributionAnswer:
        """Deletes a savepoint, or tells how far that is."""
        _require_same("number", job, number, request.job, request.number)
        return container.work(request, wait_seconds)


def _require_same(field: str, job: str, number: int, body_job: str, body_number: int) -> None:
    """`field`: what the number in the path is."""
    if (job, number) != (body_job, body_number):
        detail = f"the path says {job}/{number}, the body {body_job}/{body_number}"
        raise Conflict(detail, field=field, rule="as_in_path")


def _as_many(shard: int, order: ShardOrder, deadline_seconds: float) -> ShardOrders:
    return ShardOrders(
        container=order.container,
        incarnation=order.incarnation,
        shards={shard: order.epoch},
        version=order.version,
        leader_epoch=order.leader_epoch,
        shard_count=order.shard_count,
        deadline_seconds=deadline_seconds,
    )


def _as_one(shard: int, answers: ShardAnswers) -> ShardAnswer:
    return ShardAnswer(done=shard in answers.tasks, tasks=answers.tasks.get(shard, ()))


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
                "tasks": sum(task.host == host.name for task in summary.running.tasks.values()),
                **host_labels(host.key),
            }
            for host in summary.running.hosts.values()
        ],
    }
