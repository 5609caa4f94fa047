"""Keeps the embedded servers alive: starts one that ended again, on its data and address, and says so.

The services find it again by themselves. One that cannot start is tried again and again, with pauses, and told once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.control.errors import PenstockError
from penstock.control.logs import logger
from penstock.local.processes import how_ended
from penstock.local.progress import Awaited
from penstock.local.server import EmbeddedServer
from penstock.local.supervisor import pause_seconds

log = logger(__name__)
_WATCH_S = 0.2
_HEALTHY_AFTER_S = 30.0
# The first attempt may meet what is left of the life before.
_TOLD_AFTER = 2
_STILL_S = 30.0


class ServerWatch:
    """Watches a server on a thread of its own. `on_event(text)` gets one line for each end and each new start."""

    def __init__(self, server: EmbeddedServer, on_event: Callable[[str], None]) -> None:
        self._server = server
        self._on_event = on_event
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._is_down = False
        self._quick_ends = 0
        self._started_at = time.monotonic()
        self._thread = threading.Thread(target=self._watch, name=f"watch-{server.name}", daemon=True)

    def start(self) -> None:
        """Begins to watch a server that was started."""
        self._server.restarts_itself()
        self._thread.start()

    def stop(self) -> None:
        """Ends the watch, not the server. Safe to repeat."""
        self._stopping.set()
        self._server.give_up()
        if self._thread.is_alive():
            self._thread.join()

    def take_down(self) -> None:
        """Kills the server (`kill -9`) and leaves it down until `bring_up`."""
        with self._lock:
            self._is_down = True
            self._server.kill()

    def bring_up(self) -> None:
        """Lets the server be started again soon."""
        self._is_down = False

    def _watch(self) -> None:
        while not self._stopping.wait(_WATCH_S):
            with self._lock:
                self._look()

    def _look(self) -> None:
        name = self._server.name
        if self._is_down:
            return
        code = self._server.exit_code()
        if code is not None:
            self._on_event(f"{name} ended ({how_ended(code)})")
            self._start_again()
        elif self._server.restarts_itself():
            self._on_event(f"{name} started again by itself, after the crash of one of its processes")

    def _start_again(self) -> None:
        """Tries until the server serves or the watch ends, and says now and then that it does. Pauses grow, also from
        one quick end to the next."""
        with Awaited(self._on_event, f"{self._server.name} to start again", _STILL_S):
            self._try_to_start()

    def _try_to_start(self) -> None:
        quick = time.monotonic() - self._started_at < _HEALTHY_AFTER_S
        self._quick_ends = self._quick_ends + 1 if quick else 0
        failures = 0
        while not self._stopping.wait(pause_seconds(self._quick_ends + failures)):
            try:
                self._server.start_again()
            except Exception as error:  # noqa: BLE001 -- whatever it is, the server is needed: another attempt follows
                failures += 1
                log.debug("server does not start", server=self._server.name, error=str(error))
                if failures == _TOLD_AFTER and not self._stopping.is_set():
                    self._on_event(
                        f"{self._server.name} cannot start, and is tried again (see {self._server.log_path}): "
                        f"{_first_line(error)}"
                    )
            else:
                self._started_at = time.monotonic()
                self._on_event(f"{self._server.name} started again (pid {self._server.pid})")
                return


def _first_line(error: Exception) -> str:
    text = error.detail if isinstance(error, PenstockError) else str(error)
    return text.splitlines()[0].rstrip(":") if text else type(error).__name__
