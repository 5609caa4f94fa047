"""The S3 servers that a test can run on: the small one of the tests, and a real one behind a relay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from tests.support.s3.relay import Relay, relay
from tests.support.s3.server import LOGIN, Store, s3_server
from tests.support.s3.versitygw import gateway

SERVERS = ("small", "versitygw")
Server = Store | Relay
_SECONDS = 300.0


@contextmanager
def server_and_login(patch: pytest.MonkeyPatch, kind: str, folder: Path, *buckets: str) -> Iterator[Server]:
    """A server of one of `SERVERS` with these buckets, while the environment of hosts has `LOGIN`."""
    for name, value in LOGIN.items():
        patch.setenv(name, value)
    if kind == "small":
        with s3_server(*buckets) as small:
            yield small
    else:
        with gateway(folder, *buckets) as real, relay(real) as before_it:
            yield before_it


class Hold:
    """Holds up the first puts of a key that is meant, until they are let go. `arrived`: by put, whether it is there."""

    def __init__(self, server: Server, is_meant: Callable[[str], bool], count: int = 1) -> None:
        self.arrived = [Event() for _ in range(count)]
        self._go_on = Event()
        self._numbers = iter(range(count))
        self._is_meant = is_meant
        server.before = self._before

    def _before(self, method: str, key: str) -> None:
        if method != "PUT" or not self._is_meant(key):
            return
        number = next(self._numbers, None)
        if number is not None:
            self.arrived[number].set()
            assert self._go_on.wait(_SECONDS)

    def wait(self, number: int = 0) -> None:
        """Until this put is there."""
        assert self.arrived[number].wait(_SECONDS)

    def let_go(self) -> None:
        """The puts go on."""
        self._go_on.set()
