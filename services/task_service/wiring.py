"""Builds a Task Service from its settings. Tests build several in one process."""

from __future__ import annotations

from typing import NamedTuple

from fastapi import FastAPI
from sqlalchemy import Engine

from penstock.control.clock import Clock, SystemClock
from penstock.identity.process import ProcessIdentity, identity_of
from penstock.identity.roles import Caller, Role
from penstock.store.election import Listener
from penstock.store.engine import CHANGED_RUNNING, engine_of
from services.task_service.api import build_app
from services.task_service.cache import TemplateCache
from services.task_service.sampler import Sampler
from services.task_service.settings import TaskServiceSettings
from services.task_service.store.hours import HourStore
from services.task_service.store.port import TemplateStore
from services.task_service.store.samples import SampleStore
from services.task_service.waiters import Waiters


class TaskServiceProcess(NamedTuple):
    """The parts that are started and stopped. The caller serves `app`."""

    app: FastAPI
    cache: TemplateCache
    listener: Listener
    sampler: Sampler
    engine: Engine
    identity: ProcessIdentity

    def start(self) -> None:
        """Begins to read the store, and to take samples."""
        self.cache.start()
        self.listener.start()
        self.sampler.start()

    def stop(self) -> None:
        """Stops the threads and closes the connections."""
        self.sampler.stop()
        self.listener.stop()
        self.cache.stop()
        self.engine.dispose()


def build(settings: TaskServiceSettings, clock: Clock | None = None) -> TaskServiceProcess:
    """Connects the parts and starts nothing."""
    identity = identity_of(settings, Caller(Role.TASK_SERVICE))
    engine = engine_of(settings)
    waiters, chosen = Waiters(), clock or SystemClock()
    cache = TemplateCache(
        TemplateStore(engine),
        chosen,
        waiters,
        expiry_seconds=settings.task_service_cache_seconds,
        held_back_alert_seconds=settings.held_back_alert_seconds,
    )
    listener = Listener(settings.notifications_url(), (CHANGED_RUNNING,), cache.wake)
    sampler = Sampler(
        SampleStore(engine),
        HourStore(engine),
        chosen,
        keep_days=settings.keep_samples_days,
        keep_task_days=settings.keep_task_samples_days,
    )
    app = build_app(
        engine,
        cache,
        waiters,
        longest_wait_seconds=settings.longest_wait_seconds,
        identity=identity,
        open_metrics=settings.metrics_open,
    )
    return TaskServiceProcess(app, cache, listener, sampler, engine, identity)
