"""A database whose table is of one account, and another account that may note batches and writers in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo

from penstock.spark.sinks.postgres_connections import pool_of
from penstock.spark.sinks.postgres_target import CREATE_MARKERS
from penstock.spark.sinks.postgres_writers import CREATE_WRITERS
from tests.support.store.database import fresh_database

TABLE = "granted"
_GUEST = "denied_guest"


class Lent(NamedTuple):
    """The connections of the owner and of the guest."""

    owner: str
    guest: str

    def grant(self, rights: str, subject: str) -> None:
        """Rights as SQL names them, such as `SELECT, INSERT` on `TABLE granted`."""
        self._do(f"GRANT {rights} ON {subject} TO {_GUEST}")

    def _do(self, *statements: str) -> None:
        with psycopg.connect(self.owner, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


@contextmanager
def lent_database(postgres_url: str) -> Iterator[Lent]:
    """With the table `TABLE` of a key `dest` and a column `carrier`, on which the guest has no right yet."""
    with fresh_database(postgres_url) as url:
        lent = Lent(url, make_conninfo(url, options=f"-c role={_GUEST}"))
        lent._do(
            CREATE_MARKERS,
            CREATE_WRITERS,
            f"CREATE TABLE {TABLE} (dest text PRIMARY KEY, carrier text)",
            f"CREATE ROLE {_GUEST} LOGIN",
            f"GRANT ALL ON penstock_batches, penstock_writers TO {_GUEST}",
        )
        yield lent
        pool_of(lent.guest).close()
        lent._do(f"DROP OWNED BY {_GUEST}", f"DROP ROLE {_GUEST}")
