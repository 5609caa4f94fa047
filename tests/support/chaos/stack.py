"""The stack with a proxy between its processes: each is given the addresses of links of its own.

Links are named `client>server`. Those of a Task Manager lead to the Shard Manager, the Task Service, the job store, the
outputs' Postgres and Kafka; `cell>task_manager_1` is the way by which the Shard Manager and the State Syncer reach it.
The Job Service, which is the test's own door, has none.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from penstock.local.kafka import EmbeddedKafka
from penstock.local.ports import LOOPBACK, free_port
from penstock.local.services import task_manager_name
from penstock.local.supervisor import ProcessSpec
from tests.support.chaos.proxy import Link, Proxy
from tests.support.chaos.timetable import STORE, Targets
from tests.support.faults.stack import MortalStack

CELL = "cell"
LOOPS = ("shard_manager", "state_syncer", "task_service")
SERVERS = ("postgres", "kafka")
_SOCKET_NAME = ".s.PGSQL.5432"


class ChaosStack(MortalStack):
    """As `MortalStack`, all of it through `proxy`."""

    def __init__(self, data_dir: Path, **options: Any) -> None:
        super().__init__(data_dir, **options)
        self.proxy = Proxy()
        self.links: dict[str, Link] = {}
        self._sockets = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))  # short: Unix sockets are in it

    @property
    def containers(self) -> tuple[str, ...]:
        """The names of the Task Managers."""
        return tuple(task_manager_name(index) for index in range(1, self.task_managers + 1))

    def targets(self, *, servers: tuple[str, ...] = ()) -> Targets:
        """What faults can befall: single links, all of a container, all to the job store, and these servers."""
        return Targets((*self.links, *self.containers, STORE), LOOPS, self.containers, servers)

    def crash(self, server: str) -> Callable[[], None]:
        """`kill -9` of Postgres or Kafka; what starts it again on its data."""
        watch = self.watches[server]
        watch.take_down()
        return watch.bring_up

    def links_of(self, target: str) -> list[tuple[Link, bool]]:
        """The links that a name stands for; of each whether the target is at its far end, so that ways turn round."""
        if target in self.links:
            return [(self.links[target], False)]
        if target == STORE:
            return [(link, False) for name, link in self.links.items() if name.endswith(f">{STORE}")]
        ends = [(name.partition(">"), link) for name, link in self.links.items()]
        return [(link, server == target) for (client, _, server), link in ends if target in (client, server)]

    def start(self) -> None:
        """See `LocalStack`."""
        self.proxy.start()
        super().start()

    def stop(self) -> None:
        """See `LocalStack`."""
        super().stop()
        self.proxy.stop()
        shutil.rmtree(self._sockets, ignore_errors=True)

    def processes(self) -> tuple[ProcessSpec, ...]:
        """See `LocalStack`."""
        return tuple(replace(spec, env={**spec.env, **self._detours(spec.name)}) for spec in super().processes())

    def _detours(self, name: str) -> dict[str, str]:
        """The addresses that a process is given instead of the true ones; containers are labelled with their names."""
        if name in LOOPS:
            return {"PENSTOCK_DATABASE_URL": self._database_link(f"{name}>{STORE}", self.plan.database_url)}
        if name not in self.containers:
            return {}
        outputs = {
            connection: self._database_link(f"{name}>outputs", url) for connection, url in self.plan.connections.items()
        }
        return {
            "PENSTOCK_CONTAINER_LABELS": json.dumps({"name": name}),
            "PENSTOCK_DATABASE_URL": self._database_link(f"{name}>{STORE}", str(self.plan.task_manager_database_url)),
            "PENSTOCK_CONNECTIONS": json.dumps(outputs),
            "PENSTOCK_SHARD_MANAGER_URL": self._http_link(f"{name}>shard_manager", "shard_manager"),
            "PENSTOCK_TASK_SERVICE_URL": self._http_link(f"{name}>task_service", "task_service"),
            "PENSTOCK_PUBLIC_URL": self._http_link(f"{CELL}>{name}", name),
            "PENSTOCK_KAFKA_BOOTSTRAP": _host_and_port(self.links[f"{name}>kafka"]),
        }

    def _http_link(self, link: str, server: str) -> str:
        self.links[link] = self.proxy.link((LOOPBACK, 0), (LOOPBACK, self.plan.ports[server]))
        return f"http://{_host_and_port(self.links[link])}"

    def _database_link(self, link: str, url: str) -> str:
        """The same database, by the link's own socket."""
        parsed = make_url(url)
        folder = self._sockets / link.replace(">", "-")
        if link not in self.links:
            folder.mkdir()
            target = f"{parsed.query['host']}/{_SOCKET_NAME}"
            self.links[link] = self.proxy.link(str(folder / _SOCKET_NAME), target)
        return parsed.set(query={**parsed.query, "host": str(folder)}).render_as_string(hide_password=False)

    def _start_kafka(self) -> str:
        """A broker names itself to its clients: each container is told the address of its own link."""
        ports = {name: free_port() for name in self.containers}
        for name, port in ports.items():
            self.links[f"{name}>kafka"] = self.proxy.link((LOOPBACK, 0), (LOOPBACK, port))
        detours = {name.upper(): (port, self.links[f"{name}>kafka"]) for name, port in ports.items()}
        self._kafka_server = ManyFacedKafka(self.data_dir / "kafka", detours)
        return self._kafka_server.start()


class ManyFacedKafka(EmbeddedKafka):
    """A broker with further listeners, each of which names itself by a link. `faces`: a listener's port and link."""

    def __init__(self, data_dir: Path, faces: dict[str, tuple[int, Link]]) -> None:
        super().__init__(data_dir)
        self._faces = faces

    def _properties(self, controller_port: int) -> str:
        given = dict(line.split("=", 1) for line in super()._properties(controller_port).splitlines())
        listeners = [f"{face}://{LOOPBACK}:{port}" for face, (port, _) in self._faces.items()]
        advertised = [f"{face}://{_host_and_port(link)}" for face, (_, link) in self._faces.items()]
        _extend(given, "listeners", listeners)
        _extend(given, "advertised.listeners", advertised)
        _extend(given, "listener.security.protocol.map", [f"{face}:PLAINTEXT" for face in self._faces])
        return "".join(f"{name}={value}\n" for name, value in given.items())


def _extend(properties: dict[str, str], name: str, more: Iterable[str]) -> None:
    properties[name] = ",".join([properties[name], *more])


def _host_and_port(link: Link) -> str:
    assert not isinstance(link.address, str)
    host, port = link.address
    return f"{host}:{port}"
