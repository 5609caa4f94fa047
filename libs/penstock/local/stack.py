"""The whole of Penstock on one machine, with real parts: what `penstock up`, the demo and the e2e tests start.

Everything lives in one data folder and survives: Postgres, Kafka, checkpoints, snapshots, logs, the admin token.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import orjson
import psycopg

from penstock.config.declare import ROLLBACK_LAYER
from penstock.control.masks import mask_urls
from penstock.control.private import close_to_others, make_private, write_private
from penstock.identity.folder import IdentityFolder
from penstock.kafka.access import CLUSTERS
from penstock.local.kafka import EmbeddedKafka
from penstock.local.outputs import OUTPUTS, give_to_jobs, keep_from_jobs
from penstock.local.ports import free_port, require_free
from penstock.local.postgres import EmbeddedPostgres, create_database, database_url
from penstock.local.progress import Awaited
from penstock.local.server import EmbeddedServer
from penstock.local.server_watch import ServerWatch
from penstock.local.services import (
    CONSOLE,
    HOST,
    IDENTITY_FOLDER,
    PORT_BASE,
    StackPlan,
    kafka_port,
    process_specs,
    standard_ports,
    task_manager_name,
)
from penstock.local.settings import child_environment
from penstock.local.supervisor import ProcessSpec, Supervisor
from penstock.store.address import libpq_url
from penstock.store.engine import connect, transaction
from penstock.store.migrate import upgrade
from penstock.store.roles import TASK_MANAGER, grant_roles, url_for
from penstock.store.tokens import ADMIN, ANY_LAYER, create
from penstock.wire.job_client import JobClient

STACK_FILE = "stack.json"
LOCAL_CELL = "local"


class LocalStack:
    """Postgres, Kafka and every service as child processes. Use as a context manager.

    `data_dir` survives; `free_ports` picks ports of its own (tests) instead of the usual ones, which `port_base` moves;
    `environment` adds `PENSTOCK_*` settings for all processes; `database` and `kafka` name servers to use instead of
    embedded ones. `console`: also starts the pages for people.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        task_managers: int = 2,
        free_ports: bool = False,
        port_base: int = PORT_BASE,
        environment: Mapping[str, str] | None = None,
        database: str | None = None,
        kafka: str | None = None,
        console: bool = False,
        on_event: Callable[[str], None] = print,
    ) -> None:
        self.data_dir = data_dir.resolve()
        self.task_managers = task_managers
        self._free_ports = free_ports
        self._port_base = port_base
        self._environment = child_environment(environment or {}, own_kafka=kafka is None)
        self._database = database
        self._kafka = kafka
        self._console = console
        self._on_event = on_event
        self._postgres_server: EmbeddedPostgres | None = None
        self._kafka_server: EmbeddedKafka | None = None
        self.watches: dict[str, ServerWatch] = {}
        self.supervisor = Supervisor(self.data_dir / "logs", on_event)
        self.plan: StackPlan
        self.token: str

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:  # Ctrl-C too: nothing may stay behind
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts everything and waits until all of it is ready, as long as it lives: each ten seconds a line says what
        is awaited.

        Raises Conflict when a port is in use, TerminalError with the end of its log when a server ends before it is
        ready.
        """
        self._require_free_ports()
        make_private(self.data_dir)
        close_to_others(self.data_dir)
        IdentityFolder(self.data_dir / IDENTITY_FOLDER).create(LOCAL_CELL, datetime.now(UTC))
        with Awaited(self._on_event, "the data folder to be made") as awaited:
            self._bring_up(awaited)

    def _bring_up(self, awaited: Awaited) -> None:
        awaited.now(f"postgres (see {self.data_dir / 'postgres.log'})")
        store_url, outputs_url = self._start_postgres()
        awaited.now(f"kafka (see {self.data_dir / 'kafka' / 'kafka.log'})")
        bootstrap = self._kafka or self._start_kafka()
        self._watch_servers()
        awaited.now("the tables of the job store")
        upgrade(store_url)
        self.token = _kept_token(store_url, self.data_dir / "admin.token", "local-admin", ADMIN, (ANY_LAYER,))
        self.plan = self._make_plan(store_url, outputs_url, bootstrap)
        self._write_stack_file()
        specs = self.processes()
        self.supervisor.start(specs)
        for spec in specs:
            log_path = self.supervisor.log_path(spec.name)
            awaited.now(f"{spec.name} to be ready (see {log_path})")
            seconds = self.supervisor.wait_ready(spec.name)
            self._on_event(f"{spec.name:<16} {self.plan.url(spec.name)}  ready in {seconds:.1f} s  log {log_path}")

    def stop(self) -> None:
        """Stops everything, last started first. Safe to repeat."""
        for watch in self.watches.values():
            watch.stop()
        self.supervisor.stop()
        for server in (self._kafka_server, self._postgres_server):
            if server is not None:
                server.stop()

    def processes(self) -> tuple[ProcessSpec, ...]:
        return process_specs(self.plan)

    def client(self) -> JobClient:
        """A client of the Job Service with the admin token."""
        return JobClient(self.plan.url("job_service"), self.token)

    @property
    def url(self) -> str:
        """The one address for users."""
        return self.plan.url("job_service")

    @property
    def console_url(self) -> str | None:
        """The address of the pages for people; None without them."""
        return self.plan.url(CONSOLE) if self._console else None

    def _ports(self) -> dict[str, int]:
        return standard_ports(self.task_managers, self._port_base, console=self._console)

    def _make_plan(self, store_url: str, outputs_url: str, bootstrap: str) -> StackPlan:
        ports = self._ports()
        return StackPlan(
            data_dir=self.data_dir,
            database_url=store_url,
            kafka_bootstrap=bootstrap,
            connections={"default": outputs_url, "demo": outputs_url},
            ports={name: free_port() for name in ports} if self._free_ports else ports,
            task_manager_database_url=None if self._database else self._for_task_managers(store_url),
            environment={
                # One machine has few tasks: their figures may be fresher than those of 100,000.
                "PENSTOCK_REPORT_FIGURES_SECONDS": "2",
                **({"PENSTOCK_CONSOLE_KEY": _kept_key(self.data_dir / "console.key")} if self._console else {}),
                **self._environment,
                "PENSTOCK_SCALER_TOKEN": self._loop_token(store_url, "auto-scaler", "scaler.token", "scaler"),
                "PENSTOCK_STATE_SYNCER_TOKEN": self._loop_token(
                    store_url, "state-syncer", "state-syncer.token", ROLLBACK_LAYER
                ),
            },
        )

    def _require_free_ports(self) -> None:
        """Before anything starts: a stack must not take the services of another one for its own."""
        if self._free_ports:
            return
        for name, port in self._ports().items():
            require_free(name, port)

    def _loop_token(self, store_url: str, name: str, file: str, layer: str) -> str:
        """A loop's own token: it may write this layer and no other."""
        return _kept_token(store_url, self.data_dir / file, name, "scaler", (layer,))

    def _for_task_managers(self, store_url: str) -> str:
        """The embedded server trusts whoever may open its socket, so the role needs no password."""
        engine = connect(store_url)
        try:
            with transaction(engine) as connection:
                grant_roles(connection)
        finally:
            engine.dispose()
        keep_from_jobs(store_url)
        return url_for(TASK_MANAGER, store_url)

    def _start_postgres(self) -> tuple[str, str]:
        if self._database is None:
            self._postgres_server = EmbeddedPostgres(self.data_dir / "postgres")
            server = self._postgres_server.start()
            self._on_event(f"{'postgres':<16} {mask_urls(libpq_url(server))}")
            return ensure_database(server, "penstock"), give_to_jobs(ensure_database(server, OUTPUTS))
        return ensure_database(self._database, "penstock"), ensure_database(self._database, OUTPUTS)

    def _start_kafka(self) -> str:
        port = None if self._free_ports else kafka_port(self._port_base)
        self._kafka_server = EmbeddedKafka(self.data_dir / "kafka", port)
        bootstrap = self._kafka_server.start()
        self._on_event(f"{'kafka':<16} {bootstrap}")
        return bootstrap

    def _watch_servers(self) -> None:
        servers: tuple[EmbeddedServer | None, ...] = (self._postgres_server, self._kafka_server)
        self.watches = {each.name: ServerWatch(each, self._on_event) for each in servers if each is not None}
        for watch in self.watches.values():
            watch.start()

    def _write_stack_file(self) -> None:
        facts = {
            "url": self.url,
            "kafka_bootstrap": self.plan.kafka_bootstrap,
            "kafka_clusters": self.plan.environment.get(CLUSTERS),
            "database_url": libpq_url(self.plan.database_url),
            "outputs_url": libpq_url(self.plan.connections["default"]),
            "task_managers": [task_manager_name(i) for i in range(1, self.task_managers + 1)],
            "host": HOST,
        }
        write_private(self.data_dir / STACK_FILE, orjson.dumps(facts, option=orjson.OPT_INDENT_2))


def ensure_database(server_url: str, name: str) -> str:
    """The address of database `name` on a server, created when it is missing."""
    with suppress(psycopg.errors.DuplicateDatabase):
        create_database(server_url, name)
    return database_url(server_url, name)


def _kept_key(path: Path) -> str:
    """The secret in the file `path` (mode 600), made by the first start."""
    if not path.exists():
        write_private(path, secrets.token_hex(32).encode())
    return path.read_text().strip()


def _kept_token(store_url: str, path: Path, name: str, role: str, layers: tuple[str, ...]) -> str:
    """The token of this data folder. The first start creates it in the file `path` (mode 600)."""
    if path.exists():
        return path.read_text().strip()
    engine = connect(store_url)
    try:
        with transaction(engine) as connection:
            token = create(connection, f"{name}-{secrets.token_hex(3)}", role, layers)
    finally:
        engine.dispose()
    write_private(path, token.encode())
    return token
