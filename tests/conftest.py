"""Servers that tests share, the order in which folders run, and which tests stay together."""

from __future__ import annotations

import atexit
import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import structlog
from hypothesis import settings
from sqlalchemy import Engine
from xdist.scheduler import LoadScopeScheduling

from penstock.local.kafka import EmbeddedKafka
from penstock.local.postgres import EmbeddedPostgres
from tests.support import identity
from tests.support.store.database import fresh_database, make_template
from tests.support.store.lent import Lender, LentDatabase

# Of the processes that share the tests one does all of e2e, which mostly waits; the others do what follows meanwhile.
_ORDER = ["unit", "tidy", "contract", "e2e", "integration", "simulation"]
_BROKER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}

FEW_EXAMPLES, MANY_EXAMPLES = 15, 400

_OF_ONE_SESSION = {
    f"integration/{folder}": "/".join(group)
    for group in (("exactly_once", "kafka_source", "redistribute", "streams"), ("sinks", "spark", "test_wrong_jobs.py"))
    for folder in group
}
_YOUNG_OBJECTS = 20_000
_LONG_SECONDS = 3 * 3600
_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 6 * 2**30


def pytest_configure(config: pytest.Config) -> None:
    """Temporary folders are in memory where there is room: the tests make databases of 300 files each.

    No example of hypothesis has a time limit: other work on the machine must not fail a test. `make test-long` repeats
    the tests with random examples, with many.
    """
    if hasattr(config, "workerinput") or not config.option.numprocesses:
        gc.disable()  # until all tests are collected, which xdist's own process never does
    most = MANY_EXAMPLES if "hypothesis" in (config.option.markexpr or "") else FEW_EXAMPLES
    settings.register_profile("penstock", deadline=None, max_examples=most)
    settings.load_profile("penstock")
    _log_plain_tracebacks()
    if "TMPDIR" not in os.environ and _has_room_for_programs(_MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)
    os.environ[identity.VARIABLE] = str(identity.session_folder())


def _log_plain_tracebacks() -> None:
    """Where a test configures no logs, structlog has rich draw each traceback, for half a second of CPU."""
    *before, _ = structlog.get_config()["processors"]
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*before, renderer])


def _has_room_for_programs(folder: Path) -> bool:
    """Whether files fit there, and native libraries that Spark unpacks may be loaded from there."""
    if not folder.is_dir():
        return False
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize > _ROOM_BYTES and not facts.f_flag & os.ST_NOEXEC


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """What stays together where several processes share the tests (`make test`), in the order of the tests.

    All of e2e, which has one stack; a subfolder, which has one Job Service or the like; else a file.
    Folders and files whose tests run in a Spark session are two groups of about the same length: a young JVM is slow,
    and all of them would be longer than the rest. Simulations are alone, each by itself: they have nothing in common
    and are long.
    """

    def _split_scope(self, nodeid: str) -> str:
        path, _, name = nodeid.partition("::")
        parts = Path(path).parts[1:-1]
        if parts == ("simulation",):
            return f"{path}::{name}"
        folder = "/".join(parts)
        alone = folder if parts == ("e2e",) or len(parts) > 1 else path
        return _OF_ONE_SESSION.get(f"{folder}/{Path(path).name}") or _OF_ONE_SESSION.get(folder, alone)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    """See `Groups`. (`--dist loadgroup` of pytest-xdist 3.8 has no effect with pytest 9.2.)"""
    config.option.loadscopereorder = False
    return Groups(config, log)


def pytest_collection_finish() -> None:
    """Objects that exist once the tests are collected are frozen: collections of garbage skip them. Pytest makes five
    full ones at its end."""
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
    gc.enable()
    atexit.register(gc.unfreeze)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the folders in the order of `_ORDER`, the longest groups first. A test that is marked long may take hours."""
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(_LONG_SECONDS))
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> tuple[int, bool]:
    _, folder, *below = item.nodeid.partition("::")[0].split("/")
    place = _ORDER.index(folder) if folder in _ORDER else len(_ORDER)
    return place, f"{folder}/{below[0]}" not in _OF_ONE_SESSION


@pytest.fixture(scope="session")
def servers_dir() -> Iterator[Path]:
    """A folder for the session's servers, removed at the end; short, for Unix sockets are in it."""
    with tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres_url(servers_dir: Path) -> Iterator[str]:
    """The session's PostgreSQL server (`postgresql://`), without safety against power loss. It gathers no statistics by
    itself: a database that was used before would have others than a new one."""
    with EmbeddedPostgres(servers_dir / "postgres", durable=False) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET autovacuum = off")
            connection.execute("SELECT pg_reload_conf()")
        yield server.url


@pytest.fixture(scope="session")
def template_database(postgres_url: str) -> str:
    """The name of the database that has the schema and no rows."""
    return make_template(postgres_url)


@pytest.fixture(scope="session")
def lender(postgres_url: str, template_database: str) -> Iterator[Lender]:
    """Lends each test a database with the schema."""
    lender = Lender(postgres_url, template_database)
    yield lender
    lender.close()


@pytest.fixture
def database(lender: Lender) -> Iterator[LentDatabase]:
    """A database for this test only, as the migrations left it."""
    with lender.lend() as lent:
        yield lent


@pytest.fixture
def database_url(database: LentDatabase) -> str:
    """The address of the test's database (`postgresql://`)."""
    return database.url


@pytest.fixture
def engine(database: LentDatabase) -> Engine:
    """Connections to the test's database."""
    return database.engine


@pytest.fixture
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """A database of the test's own with nothing in it (`postgresql://`)."""
    with fresh_database(postgres_url) as url:
        yield url


@pytest.fixture(scope="session")
def kafka(servers_dir: Path) -> Iterator[EmbeddedKafka]:
    """The session's Kafka broker: `kafka.bootstrap`. Tests make topics with names of their own.

    It obeys ACLs, of which there are none at first, and looks every 200 ms for transactions that have timed out.
    """
    with EmbeddedKafka(servers_dir / "kafka", settings=_BROKER) as server:
        yield server
