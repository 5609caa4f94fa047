"""A process that is one control loop with an HTTP side."""

from __future__ import annotations

from typing import Protocol

from penstock.control.loop import LeaderLoop
from penstock.wire.app import create_app, serve


class Waker(Protocol):
    """A source of wake-ups for the loop, such as `penstock.store.election.Listener`."""

    def start(self) -> None:
        """Begins to wake the loop."""
        ...

    def stop(self) -> None:
        """Ends at once."""
        ...


def serve_loop(name: str, loop: LeaderLoop, host: str, port: int, waker: Waker | None = None) -> None:
    """Runs a loop, with `/readyz` and `/metrics`, until SIGTERM or SIGINT."""
    loop.start()
    try:
        if waker is not None:
            waker.start()
        serve(create_app(name, ready=loop.status), host, port)
    finally:
        if waker is not None:
            waker.stop()
        loop.stop()
