"""Two Postgres servers, one a replica of the other by streaming, which can change places."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from penstock.control.process import wait_until
from penstock.local.postgres import EmbeddedPostgres, create_database
from penstock.store.migrate import upgrade

_TIMEOUT_S = 60.0
_DATABASE = "penstock"


class Node(EmbeddedPostgres):
    """A server that can be killed."""

    @property
    def data_dir(self) -> Path:
        """The folder with its data."""
        return self._data

    def kill(self) -> None:
        """Ends the server as a crash does: connections break, nothing is flushed or told."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self.stop()


class Pair:
    """`url` names both servers: a client finds the one that takes writes.

    `synchronous`: a commit is confirmed once the replica has it.
    """

    def __init__(self, folder: Path, stack: ExitStack, *, synchronous: bool) -> None:
        self._folder = folder
        self._stack = stack
        self._standby_names = "*" if synchronous else ""
        self._made = 0
        self.primary = self._node()
        self.url = create_database(self.primary.url, _DATABASE)
        upgrade(self.url)
        self.replica = self._node(copy_of=self.primary.url)
        self.follow()
        self.url = f"postgresql://postgres@/{_DATABASE}?host={_host(self.primary)},{_host(self.replica)}"

    def ask(self, node: Node, statement: str) -> list[tuple[object, ...]]:
        """The rows of a statement on one of the servers, whatever it is."""
        with psycopg.connect(node.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def set(self, node: Node, name: str, value: str) -> None:
        """A setting of a server, which counts at once."""
        self.ask(node, f"ALTER SYSTEM SET {name} = '{value}'")
        self.ask(node, "SELECT pg_reload_conf()")

    def follow(self) -> None:
        """Waits until the replica streams; commits wait for it from then on where they are to."""
        wait_until(lambda: self.ask(self.primary, "SELECT 1 FROM pg_stat_replication"), _TIMEOUT_S, "the replica")
        self.set(self.primary, "synchronous_standby_names", self._standby_names)
        if self._standby_names:
            awaited = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
            wait_until(lambda: self.ask(self.primary, awaited), _TIMEOUT_S, "the replica to be waited for")

    def promote(self) -> None:
        """The replica takes writes. It waits for nobody, until `return_old`."""
        self.primary, self.replica = self.replica, self.primary
        self.ask(self.primary, "SELECT pg_promote()")
        self.set(self.primary, "synchronous_standby_names", "")

    def return_old(self) -> None:
        """The server that was killed comes back on its old address, as a replica made from the present primary."""
        self.replica.stop()
        shutil.rmtree(self.replica.data_dir)
        self.replica = self._start(Node(self.replica.data_dir, copy_of=self.primary.url))
        self.follow()

    def _node(self, copy_of: str | None = None) -> Node:
        self._made += 1
        return self._start(Node(self._folder / f"pg{self._made}", copy_of=copy_of))

    def _start(self, node: Node) -> Node:
        node.start()
        self._stack.callback(node.stop)
        return node


@contextmanager
def replicated(folder: Path, *, synchronous: bool = True) -> Iterator[Pair]:
    """A primary with the schema and its replica; `folder` is short, for Unix sockets are in it."""
    with ExitStack() as stack:
        yield Pair(folder, stack, synchronous=synchronous)


def _host(node: Node) -> str:
    return urlsplit(node.url).query.removeprefix("host=")
