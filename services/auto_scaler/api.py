"""The HTTP side: replays for the Job Service, health and metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from penstock.identity.process import ProcessIdentity
from penstock.wire.app import create_internal_app
from penstock.wire.replays import ReplayCall, ReplayView
from services.auto_scaler.replays import Replays
from services.auto_scaler.store.decisions import AUTO_SCALER


def build_app(
    replays: Replays, *, ready: Callable[[], dict[str, Any]], identity: ProcessIdentity, open_metrics: bool = False
) -> FastAPI:
    """The routes of an Auto Scaler."""
    app = create_internal_app(AUTO_SCALER, ready=ready, identity=identity, open_metrics=open_metrics)

    @app.post("/v1/replays", tags=["replays"])
    def replay(call: ReplayCall) -> ReplayView:
        """Another policy over what is recorded of a job. Changes nothing."""
        return replays.replay(call)

    return app
