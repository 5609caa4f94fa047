"""The HTTP side: heartbeats, health and metrics."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from penstock.control.errors import NotLeader, RetryableError
from penstock.wire.app import create_app
from penstock.wire.cluster import HeartbeatAnswer, HeartbeatRequest
from services.shard_manager.leader.heartbeats import Heartbeats


def build_app(heartbeats: Heartbeats) -> FastAPI:
    """`POST /v1/heartbeats` and the routes of every service. A standby is ready: its answer names the leader's URL."""
    app = create_app("shard_manager", ready=heartbeats.readiness)

    @app.post("/v1/heartbeats")
    async def heartbeat(request: HeartbeatRequest) -> HeartbeatAnswer:
        """Asynchronous, so that known containers get an answer even while every worker thread waits for the store."""
        try:
            answer = heartbeats.answer_known(request)
            return answer if answer is not None else await run_in_threadpool(heartbeats.register, request)
        except NotLeader as error:
            raise await run_in_threadpool(_with_leader, heartbeats, error) from error

    return app


def _with_leader(heartbeats: Heartbeats, error: NotLeader) -> NotLeader:
    """The same refusal with `leader`, the URL to ask instead, if the store knows it."""
    extra: dict[str, Any] = {}
    try:
        extra["leader"] = heartbeats.leader_url()
    except RetryableError as unknown:
        extra["reason"] = unknown.detail
    return NotLeader(error.detail, **extra)
