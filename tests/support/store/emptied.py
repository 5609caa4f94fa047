"""A database that several tests use in turn. Each finds it as the migrations left it."""

from __future__ import annotations

import psycopg
from sqlalchemy import Engine, text

from penstock.store.address import libpq_url
from penstock.store.engine import transaction

# A function, for a connection plans its statements once. A replica's session runs no triggers: they keep the history
# and the numbers from going back.
_REMEMBER = """
    DO $$
    DECLARE
        name text;
        is_used boolean;
        body text := '';
    BEGIN
        CREATE SCHEMA pristine;
        FOR name IN
            SELECT relname FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        LOOP
            body := body || format('DELETE FROM public.%I; GET DIAGNOSTICS one = ROW_COUNT; gone := gone + one;', name);
            EXECUTE format('SELECT EXISTS (SELECT FROM public.%I)', name) INTO is_used;
            IF is_used THEN
                EXECUTE format('CREATE TABLE pristine.%I AS TABLE public.%I', name, name);
                body := body || format(
                    'INSERT INTO public.%I OVERRIDING SYSTEM VALUE SELECT * FROM pristine.%I;', name, name
                );
            END IF;
        END LOOP;
        body := body || 'PERFORM setval(to_regclass(format(''%I.%I'', schemaname, sequencename)), start_value, false)'
            ' FROM pg_sequences WHERE schemaname = ''public'' AND last_value IS NOT NULL;';
        EXECUTE format(
            'CREATE FUNCTION pristine.empty() RETURNS bigint LANGUAGE plpgsql SET session_replication_role = replica'
            ' AS %L', 'DECLARE gone bigint := 0; one bigint; BEGIN ' || body || ' RETURN gone; END'
        );
    END $$
"""
EMPTY = "SELECT pristine.empty()"
"""Brings a database back to what `remember` found: rows, counters and sequences. Gives the number of rows that went."""


def remember(url: str) -> None:
    """Keeps the rows that a new database has, in a schema of their own."""
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        connection.execute(_REMEMBER)


def empty(engine: Engine) -> None:
    """Brings the database back to what `remember` found."""
    with transaction(engine) as connection:
        connection.execute(text(EMPTY))
