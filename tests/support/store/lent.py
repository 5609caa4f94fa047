"""Databases that are lent to one test after another: emptying one takes a tenth of the time of a copy of the template.

A database is lent again only if it has the schema of a new one, and nothing of the test is still connected. Otherwise
it is dropped, also when it was filled. A test that sets something in a session of the shared engine sets it back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from sqlalchemy import Engine, QueuePool

from penstock.local.postgres import create_database
from penstock.store.address import libpq_url
from penstock.store.engine import connect
from tests.support.store.database import drop_database, new_name
from tests.support.store.emptied import EMPTY, remember

_PROGRAM = "lent"
_MOST_ROWS = 5_000
_OTHERS = """
    SELECT
        (SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
           AND (application_name <> %s OR state <> 'idle'))
        + (SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
           WHERE d.datname = current_database() AND l.locktype = 'advisory')
"""
"""Connections of others, those of the engine that are in use, and locks that a session has kept."""
_OWN = "oid >= 16384"
"""Of objects that did not come with the server."""
_CATALOGS = {
    **dict.fromkeys(("pg_class", "pg_trigger", "pg_constraint", "pg_rewrite", "pg_proc"), _OWN),
    **dict.fromkeys(("pg_attrdef", "pg_enum", "pg_sequence", "pg_namespace", "pg_default_acl"), "true"),
    "pg_attribute": "attrelid >= 16384",
    "pg_database": "datname = current_database()",
    "pg_db_role_setting": "setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())",
}
# A row of a catalog that was changed has another xmin. Statistics and VACUUM change rows in place.
_SHAPE = "SELECT " + ", ".join(
    f"(SELECT (count(*), sum(xmin::text::bigint)) FROM {name} WHERE {which})::text" for name, which in _CATALOGS.items()
)


@dataclass(frozen=True)
class LentDatabase:
    """`url` (`postgresql://`) and an engine on it, whose connections outlive a test."""

    url: str
    engine: Engine
    _own: psycopg.Connection = field(repr=False)
    _shape: tuple[str, ...] = field(repr=False)

    @classmethod
    def new(cls, server_url: str, template: str) -> LentDatabase:
        """A copy of the template."""
        url = create_database(server_url, new_name(), template)
        remember(url)
        own = psycopg.connect(libpq_url(url), autocommit=True)
        return cls(url, connect(f"{url}&application_name={_PROGRAM}"), own, _shape(own))

    def emptied(self) -> bool:
        """Bring it back to what the migrations made; False where that is not enough, or not safe."""
        try:
            others = self._own.execute(_OTHERS, [_PROGRAM]).fetchone()
            if _in_use(self.engine) or others != (0,) or _shape(self._own) != self._shape:
                return False
            return self._own.execute(EMPTY).fetchone() < (_MOST_ROWS,)
        except psycopg.Error:
            return False

    def close(self) -> None:
        """Close all connections of its own."""
        self.engine.dispose()
        self._own.close()


def _in_use(engine: Engine) -> bool:
    """Whether a connection of its pool was not given back."""
    return isinstance(engine.pool, QueuePool) and engine.pool.checkedout() != 0


def _shape(connection: psycopg.Connection) -> tuple[str, ...]:
    row = connection.execute(_SHAPE).fetchone()
    assert row is not None
    return row


class Lender:
    """Lends databases of one server. Each is lent to one test at a time."""

    def __init__(self, server_url: str, template: str) -> None:
        self._server_url = server_url
        self._template = template
        self._free: list[LentDatabase] = []

    @contextmanager
    def lend(self) -> Iterator[LentDatabase]:
        """A database with the schema, and no rows but those of the migrations."""
        database = self._free.pop() if self._free else LentDatabase.new(self._server_url, self._template)
        try:
            yield database
        finally:
            if database.emptied():
                self._free.append(database)
            else:
                self._drop(database)

    def close(self) -> None:
        """Drop what is not lent."""
        while self._free:
            self._drop(self._free.pop())

    def _drop(self, database: LentDatabase) -> None:
        database.close()
        drop_database(self._server_url, database.url)
