"""A real PgBouncer in transaction mode before a Postgres server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from penstock.control.process import start_child, stop_group, wait_until
from penstock.local.ports import free_port

_APT = Path(__file__).parents[3] / "deploy" / "setup" / "apt.sh"
_ACCOUNT_FOR_ROOT = "pgserver"
SERVER_CONNECTIONS = 3
_CONFIG = """
[databases]
* = host={host} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 200
"""


@contextmanager
def pgbouncer(folder: Path, database_url: str) -> Iterator[str]:
    """The address of the same database by way of PgBouncer, which has `SERVER_CONNECTIONS` connections to it.

    It is installed by apt where it is missing. Raises RuntimeError with what to do where that cannot be.
    """
    program, port, parts = _program(), free_port(), urlsplit(database_url)
    config = folder / "pgbouncer.ini"
    (host,) = parse_qs(parts.query)["host"]
    config.write_text(_CONFIG.format(host=host, port=port, connections=SERVER_CONNECTIONS))
    account = _ACCOUNT_FOR_ROOT if os.geteuid() == 0 else None  # it refuses to run as root
    child = start_child([program, config], log_path=folder / "pgbouncer.log", user=account)
    try:
        wait_until(lambda: _listens(port), 20, "pgbouncer to listen")
        yield f"postgresql://postgres@127.0.0.1:{port}{parts.path}"
    finally:
        stop_group(child, 10)


def _program() -> str:
    if (found := _found()) is None:
        result = subprocess.run([_APT, "pgbouncer"], capture_output=True, text=True, check=False)
        found = _found()
        if found is None:
            raise RuntimeError(f"this test needs PgBouncer:\n{result.stderr[-2000:]}")
    return found


def _found() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
