"""The HTTP side of the services: what their `api` modules do, by path, on the real handlers behind it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from penstock.control.errors import NotFound, NotLeader, RetryableError
from penstock.identity import rules
from penstock.identity.roles import Caller
from penstock.model.reports import TaskReportBatch, TaskReportChanges
from penstock.tasks.host_task import HostTask
from penstock.wire.cluster import (
    KNOWS_HEADER,
    REPORT_NUMBER_HEADER,
    ChangesAnswer,
    HeartbeatRequest,
    LeaseAnswer,
    LeaseRequest,
    ShardOrders,
)
from penstock.wire.jobs import Batch, BatchResults
from services.shard_manager.leader.heartbeats import Heartbeats
from services.task_manager.container import Container
from services.task_service.api import SpecAnswers
from tests.simulation.network import Request, Response
from tests.simulation.scheduler import Scheduler
from tests.simulation.threads import Event

KILL_SECONDS = 2.0
_HOST_TASKS = "/v1/host-tasks/"


def _let_in(service: str, request: Request) -> Caller:
    """As `penstock.wire.gate`."""
    rules.require_allowed(service, request.method, request.path, request.caller, open_metrics=False)
    assert request.caller is not None
    return request.caller


def of_shard_manager(heartbeats: Heartbeats) -> Callable[[Request], Response]:
    """As `services.shard_manager.api`."""

    def handle(request: Request) -> Response:
        caller = _let_in("shard_manager", request)
        asked = HeartbeatRequest.model_validate_json(request.body)
        rules.require_container(caller, asked.container)
        try:
            answer = heartbeats.answer_known(asked)
            return _json(answer if answer is not None else heartbeats.register(asked))
        except NotLeader as error:
            raise _with_leader(heartbeats, error) from error

    return handle


def _with_leader(heartbeats: Heartbeats, error: NotLeader) -> NotLeader:
    try:
        return NotLeader(error.detail, leader=heartbeats.leader_url())
    except RetryableError as unknown:
        return NotLeader(error.detail, reason=unknown.detail)


def of_task_manager(container: Container) -> Callable[[Request], Response]:
    """As `services.task_manager.api`."""

    def handle(request: Request) -> Response:
        _let_in("task_manager", request)
        if request.path in ("/v1/shards/drop", "/v1/shards/add"):
            order = ShardOrders.model_validate_json(request.body)
            if request.path.endswith("add"):
                return _json(container.add(order))
            return _json(container.await_stopped(order, container.drop(order), order.deadline_seconds + KILL_SECONDS))
        if request.path.startswith(_HOST_TASKS) and request.method == "PUT":
            task = HostTask.model_validate_json(request.body)
            return _json(container.host_task(task, float(request.query["wait_seconds"])))
        if request.path.startswith(_HOST_TASKS):
            container.cancel_host_task(request.path.removeprefix(_HOST_TASKS), int(request.query["leader_epoch"]))
            return Response(204)
        raise NotFound(f"there is no {request.path}")

    return handle


def of_task_service(
    specs: SpecAnswers,
    save_report: Callable[[TaskReportBatch, int], None],
    save_changes: Callable[[TaskReportChanges], bool],
    renew_lease: Callable[[LeaseRequest], LeaseAnswer],
) -> Callable[[Request], Response]:
    """As `services.task_service.api`, uncompressed."""

    def handle(request: Request) -> Response:
        caller = _let_in("task_service", request)
        if request.path == "/v1/reports":
            number = int(request.query["number"])
            batch = TaskReportBatch.model_validate_json(request.body)
            rules.require_container(caller, batch.container)
            save_report(batch, number)
            return Response(204, headers={REPORT_NUMBER_HEADER: str(number)})
        if request.path == "/v1/leases":
            lease = LeaseRequest.model_validate_json(request.body)
            rules.require_container(caller, lease.container)
            return _json(renew_lease(lease))
        if request.path == "/v1/reports/changes":
            changes = TaskReportChanges.model_validate_json(request.body)
            rules.require_container(caller, changes.container)
            return _json(ChangesAnswer(stored=save_changes(changes)))
        after, query = request.query.get("after"), request.query
        knows, wait_seconds = request.headers.get(KNOWS_HEADER, ""), float(query.get("wait_seconds", 0.0))
        answer = specs.answer(
            knows,
            None if after is None else int(after),
            wait_seconds,
            query.get("store", ""),
            full=bool(query.get("full")),
        )
        encoded = run(answer)
        headers = {"ETag": encoded.etag, "content-type": "application/json"}
        if encoded.etag == request.headers.get("If-None-Match"):
            return Response(304, headers=headers)
        return Response(200, encoded.body, headers)

    return handle


def of_job_service(batch: Callable[[Any], Any]) -> Callable[[Request], Response]:
    """As `services.job_service.api`, for what a State Syncer asks it."""

    def handle(request: Request) -> Response:
        return _json(BatchResults(results=batch(Batch.model_validate_json(request.body).writes)))

    return handle


class Waiters:
    """As `services.task_service.waiters.Waiters`, for greenlets."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: dict[Event, Callable[[], bool]] = {}

    async def wait(self, is_done: Callable[[], bool], seconds: float) -> bool:
        if is_done():
            return True
        changed = Event(self._scheduler)
        self._waiting[changed] = is_done
        changed.wait(seconds)
        self._waiting.pop(changed, None)
        return is_done()

    def release(self) -> None:
        for changed in [changed for changed, is_done in self._waiting.items() if is_done()]:
            del self._waiting[changed]
            changed.set()


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that awaits nothing but what is there."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("a coroutine of the simulation waits for an event loop")


def _json(model: Any) -> Response:
    return Response(200, model.model_dump_json().encode())
