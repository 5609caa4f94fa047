"""The role by which jobs write to the embedded PostgreSQL: the database of outputs is its own, nothing else is."""

from __future__ import annotations

import psycopg
from psycopg import sql

from penstock.store.address import libpq_url
from penstock.store.roles import SERVICE, TASK_MANAGER, url_for

OUTPUTS = "penstock_outputs"

_ROLE = f"""
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{OUTPUTS}') THEN
        CREATE ROLE {OUTPUTS} LOGIN;
    END IF;
    EXECUTE format('ALTER DATABASE %I OWNER TO {OUTPUTS}', current_database());
END $$
"""
# A release before this one let jobs write as the superuser: what they made then is the role's from now on.
_GIVE = f"""
DO $$ DECLARE made record; BEGIN
    FOR made IN SELECT nspname AS name FROM pg_namespace
        WHERE nspowner = current_user::regrole AND nspname !~ '^(pg_|information_schema$|public$)'
    LOOP EXECUTE format('ALTER SCHEMA %I OWNER TO {OUTPUTS}', made.name); END LOOP;
    FOR made IN SELECT oid::regclass AS name FROM pg_class
        WHERE relowner = current_user::regrole AND relkind IN ('r', 'p', 'v', 'm')
        AND relnamespace::regnamespace::text !~ '^(pg_|information_schema$)'
    LOOP EXECUTE format('ALTER TABLE %s OWNER TO {OUTPUTS}', made.name); END LOOP;
END $$
"""


def give_to_jobs(outputs_url: str) -> str:
    """Makes a database of outputs the role's, and returns its address for the role. Safe to repeat; for the superuser
    of a server that trusts whoever may open its socket."""
    with psycopg.connect(libpq_url(outputs_url)) as connection:
        connection.execute(_ROLE)
        connection.execute(_GIVE)
    return url_for(OUTPUTS, outputs_url)


def keep_from_jobs(store_url: str) -> None:
    """Lets only the roles of the store, which exist, connect to it. Safe to repeat."""
    with psycopg.connect(libpq_url(store_url)) as connection:
        database = sql.Identifier(connection.info.dbname)
        roles = sql.SQL(", ").join(map(sql.Identifier, (TASK_MANAGER, SERVICE)))
        connection.execute(sql.SQL("REVOKE CONNECT ON DATABASE {} FROM PUBLIC").format(database))
        connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, roles))
