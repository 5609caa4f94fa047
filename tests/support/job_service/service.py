"""A Job Service on a real port and a real store, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Engine

from penstock.control.clock import SystemClock
from penstock.store import tokens
from penstock.store.engine import engine_of, transaction
from penstock.wire.http import Identity
from penstock.wire.job_client import JobClient
from services.job_service.api import create_api
from services.job_service.settings import JobServiceSettings
from tests.support.control.serving import serving
from tests.support.identity import outgoing
from tests.support.store.database import fresh_database
from tests.support.store.emptied import empty, remember

CONFIG: Mapping[str, Any] = {
    "query": {"sql": "SELECT origin, dest FROM flights"},
    "inputs": {"flights": {"topic": "flights", "key_groups": 8, "value_schema": "origin STRING, dest STRING"}},
    "output": {"type": "kafka", "topic": "clean"},
    "owner": "ann",
}


@dataclass(frozen=True, slots=True)
class RunningJobService:
    """Its address, the first admin's token, and the store beneath it."""

    url: str
    admin: str
    engine: Engine
    database_url: str

    def client(self, token: str | None = None) -> JobClient:
        """A client with the token, the admin's by default."""
        return JobClient(self.url, self.admin if token is None else token)


@contextmanager
def job_service(database_url: str, identity: Identity | None = None, **settings: Any) -> Iterator[RunningJobService]:
    """Serves on a free port until the end of the block; tokens are not remembered, so a revoked one ends at once."""
    chosen: dict[str, Any] = {
        "database_url": database_url,
        "job_service_token_cache_seconds": 0.0,
        "job_service_event_seconds": 0.0,
        "path_roots": ("/",),
    }
    chosen |= settings
    service = JobServiceSettings(**chosen)
    engine = engine_of(service, connections=40)
    app = create_api(engine, SystemClock(), service, identity or outgoing("job_service"))
    with serving(app) as url:
        with transaction(engine) as connection:
            admin = tokens.create_first_admin(connection)
        yield RunningJobService(url, str(admin), engine, database_url)
    engine.dispose()


@contextmanager
def standing_job_service(server_url: str, template: str) -> Iterator[RunningJobService]:
    """A service for many tests, on a database of its own. Each test calls `as_new` first."""
    with fresh_database(server_url, template) as url:
        remember(url)
        with job_service(url) as running:
            yield running


def as_new(standing: RunningJobService) -> RunningJobService:
    """The service on an emptied database, with a new first admin.

    It remembers nothing from one request to the next, so it is as good as a new one.
    """
    empty(standing.engine)
    with transaction(standing.engine) as connection:
        return replace(standing, admin=str(tokens.create_first_admin(connection)))
