"""A database that several tests use in turn. Each finds it as the migrations left it."""

from __future__ import annotations

import psycopg
from sqlalchemy import Engine, text

from penstock.store.address import libpq_url
from penstock.store.engine import transaction

_REMEMBER = """
    DO $$
    DECLARE
        name text;
        is_used boolean;
    BEGIN
        CREATE SCHEMA pristine;
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
            EXECUTE format('SELECT EXISTS (SELECT FROM public.%I)', name) INTO is_used;
            IF is_used THEN
                EXECUTE format('CREATE TABLE pristine.%I AS TABLE public.%I', name, name);
            END IF;
        END LOOP;
    END $$
"""
# A replica's session runs no triggers: they keep the history and the numbers from going back. A table of no size never
# had a row.
EMPTY = """
    DO $$
    DECLARE
        name text;
    BEGIN
        PERFORM set_config('session_replication_role', 'replica', true);
        FOR name IN
            SELECT tablename FROM pg_tables
            WHERE schemaname = 'public' AND pg_relation_size(to_regclass(format('public.%I', tablename))) > 0
        LOOP
            EXECUTE format('DELETE FROM public.%I', name);
        END LOOP;
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'pristine' LOOP
            EXECUTE format('INSERT INTO public.%I OVERRIDING SYSTEM VALUE SELECT * FROM pristine.%I', name, name);
        END LOOP;
        PERFORM setval(to_regclass(format('%I.%I', schemaname, sequencename)), start_value, false)
        FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL;
    END $$
"""
"""Brings a database back to what `remember` found: rows, counters and sequences."""


def remember(url: str) -> None:
    """Keeps the rows that a new database has, in a schema of their own."""
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        connection.execute(_REMEMBER)


def empty(engine: Engine) -> None:
    """Brings the database back to what `remember` found."""
    with transaction(engine) as connection:
        connection.execute(text(EMPTY))
