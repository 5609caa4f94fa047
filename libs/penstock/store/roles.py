"""The roles of the job store. `roles.sql` beside this file says what each may do."""

from __future__ import annotations

from importlib.resources import files

from sqlalchemy import Connection, make_url

TASK_MANAGER = "penstock_task_manager"
SERVICE = "penstock_service"
_LOCK = 7_070_009


def grant_roles(connection: Connection) -> None:
    """Makes the roles, without passwords, and gives each exactly its rights. Safe to repeat; for the store's owner.

    Raises DBAPIError when the owner may not make roles.
    """
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    statements = files("penstock.store").joinpath("roles.sql").read_text(encoding="utf-8")
    connection.exec_driver_sql(statements, execution_options={"no_parameters": True})


def url_for(role: str, url: str) -> str:
    """The address of a store for a role that needs no password there, as on a Unix socket with peer or trust."""
    return make_url(url).set(username=role, password=None).render_as_string(hide_password=False)
