"""A process that is one control loop: election, wake-ups by NOTIFY, and an HTTP side. Wiring that loops share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Engine

from penstock.control.clock import Clock
from penstock.control.loop import LeaderLoop, Leadership
from penstock.control.settings import CommonSettings
from penstock.store.election import Listener, StoreElection
from penstock.wire.app import create_app, serve


class LoopTimes(NamedTuple):
    """Periods of a loop in seconds, as `LeaderLoop` takes them."""

    period: float
    lease: float
    renew: float
    gather: float = 0.0


def build_loop(
    name: str, round_: Callable[[int], None], engine: Engine, clock: Clock, times: LoopTimes, *, holder: str, url: str
) -> LeaderLoop:
    """A loop that is led by way of the lease row `name`; `holder` is unique to this life of the process."""
    election = StoreElection(engine, name, holder, url=url, lease_seconds=times.lease)
    leadership = Leadership(name, election, times.lease, clock.monotonic)
    return LeaderLoop(
        name,
        round_,
        leadership,
        clock,
        period_seconds=times.period,
        renew_seconds=times.renew,
        gather_seconds=times.gather,
    )


def serve_loop(name: str, loop: LeaderLoop, settings: CommonSettings, port: int, channels: tuple[str, ...]) -> None:
    """Runs a loop, woken by NOTIFY on `channels`, with `/readyz` and `/metrics`, until SIGTERM or SIGINT."""
    listener = Listener(settings.database_url, channels, loop.wake) if channels else None
    loop.start()
    try:
        if listener is not None:
            listener.start()
        serve(create_app(name, ready=loop.status), settings.host, port)
    finally:
        if listener is not None:
            listener.stop()
        loop.stop()
