"""The HTTP side: heartbeats, health and metrics."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from penstock.control.errors import NotLeader, RetryableError
from penstock.identity.process import ProcessIdentity
from penstock.identity.roles import Caller
from penstock.identity.rules import require_container
from penstock.wire.app import create_internal_app
from penstock.wire.cluster import HeartbeatAnswer, HeartbeatRequest
from penstock.wire.direct import add_direct_call
from services.shard_manager.leader.heartbeats import Heartbeats


def build_app(heartbeats: Heartbeats, identity: ProcessIdentity, *, open_metrics: bool = False) -> FastAPI:
    """`POST /v1/heartbeats` and the routes of every service. A standby is ready: its answer names the leader's URL."""
    app = create_internal_app("shard_manager", ready=heartbeats.readiness, identity=identity, open_metrics=open_metrics)

    async def heartbeat(request: HeartbeatRequest, caller: Caller) -> HeartbeatAnswer:
        """Asynchronous, so that known containers get an answer even while every worker thread waits for the store."""
        require_container(caller, request.container)
        try:
            answer = heartbeats.answer_known(request)
            return answer if answer is not None else await run_in_threadpool(heartbeats.register, request)
        except NotLeader as error:
            raise await run_in_threadpool(_with_leader, heartbeats, error) from error

    add_direct_call(app, "/v1/heartbeats", HeartbeatRequest, heartbeat)
    return app


def _with_leader(heartbeats: Heartbeats, error: NotLeader) -> NotLeader:
    """The same refusal with `leader`, the URL to ask instead, if the store knows it."""
    extra: dict[str, Any] = {}
    try:
        extra["leader"] = heartbeats.leader_url()
    except RetryableError as unknown:
        extra["reason"] = unknown.detail
    return NotLeader(error.detail, **extra)
