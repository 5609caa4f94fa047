"""The roles of the job store. `roles.sql` beside this file says what each may do."""

from __future__ import annotations

import re
from importlib.resources import files
from urllib.parse import quote, unquote

from sqlalchemy import Connection

from penstock.control.errors import UserError

TASK_MANAGER = "penstock_task_manager"
SERVICE = "penstock_service"
_LOCK = 7_070_009
_URL = re.compile(r"(?P<scheme>[\w+]+://)(?:[^/@]*@)?(?P<hosts_and_database>[^?]*)\??(?P<options>.*)")


def grant_roles(connection: Connection) -> None:
    """Makes the roles, without passwords, and gives each exactly its rights. Safe to repeat; for the store's owner.

    Raises DBAPIError when the owner may not make roles.
    """
    connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    statements = files("penstock.store").joinpath("roles.sql").read_text(encoding="utf-8")
    connection.exec_driver_sql(statements, execution_options={"no_parameters": True})


def url_for(role: str, url: str) -> str:
    """The address of a store for a role that needs no password there, as on a Unix socket with peer or trust.

    Raises UserError for what is no URL.
    """
    found = _URL.fullmatch(url)
    if found is None:
        raise UserError("write it as postgresql://user@host/database", field="database_url", rule="url")
    options = "&".join(each for each in found["options"].split("&") if not _is_credential(each))
    return f"{found['scheme']}{quote(role)}@{found['hosts_and_database']}{options and '?'}{options}"


def _is_credential(option: str) -> bool:
    name = unquote(option.partition("=")[0])
    return name == "user" or name.endswith("password")
