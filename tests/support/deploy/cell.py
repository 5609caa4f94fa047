"""A cell of the processes that files of deployment describe, each in a box of its own."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from penstock.control.process import start_child, stop_group, wait_until
from penstock.identity.folder import IdentityFolder
from penstock.identity.roles import Caller, Role
from penstock.store.roles import SERVICE, TASK_MANAGER
from tests.support.deploy.boxes import Box, networks
from tests.support.deploy.described import Process

_STORE = "/run/postgresql"
_STOP_SECONDS = 40.0
# One folder for all processes; the others are each one's own.
_SHARED = ("/data", "/srv/penstock")


@dataclass(frozen=True, slots=True)
class Running:
    """A process in its box."""

    described: Process
    box: Box
    environment: Mapping[str, str]
    child: subprocess.Popen[bytes]
    log: Path

    def is_healthy(self) -> bool:
        """What its health check says. Raises AssertionError when the process has ended."""
        assert self.child.poll() is None, self.log.read_text()[-3000:]
        return self.box.run(self.described.health, self.environment).returncode == 0


def store_of(database_url: str) -> Path:
    """The folder of the socket that a URL of the tests' server names."""
    return Path(parse_qs(urlsplit(database_url).query)["host"][0])


@contextmanager
def boxed(processes: Sequence[Process], database_url: str, folder: Path, **more: str) -> Iterator[list[Running]]:
    """Starts them all; at the end they get SIGTERM. `more`: further variables of each.

    The account is the one of the tests' server, which lets nobody else in; it is not root.
    """
    with ExitStack() as stack:
        places = list(dict.fromkeys(each.hosts for each in processes))
        joined = dict(zip(places, stack.enter_context(networks(len(places))), strict=True))
        (folder / "hosts").write_text(_hosts({names: address for names, (_, address) in joined.items()}))
        boxes = _Boxes(folder, store_of(database_url))
        running = []
        for each in processes:
            box = boxes.box(each, joined[each.hosts][0])
            environment = {**_environment(each, database_url), **more}
            log = folder / f"{each.service}.log"
            child = start_child(box.command(each.words, environment), log_path=log)
            stack.callback(stop_group, child, _STOP_SECONDS)
            running.append(Running(each, box, environment, child, log))
        yield running


def observer(beside: Running, folder: Path, readable: Mapping[str, Path], written: str) -> Box:
    """A box in the network of a process that runs, with the identity of an observer. `written`: what it may write."""
    identity, own, store = folder / "observer", folder / "observed", beside.box.account
    IdentityFolder(folder / "authority").issue(Caller(Role.OBSERVER, None), (), datetime.now(UTC), to=identity)
    (folder / "observer-root").mkdir()
    own.mkdir()
    for each in (identity, own):
        give(each, store)
    return replace(
        beside.box,
        root=folder / "observer-root",
        folders={written: own},
        readable={"/identity": identity, **readable},
    )


def wait_until_healthy(running: Sequence[Running], seconds: float) -> None:
    """Returns when each health check has succeeded."""
    for each in running:
        wait_until(each.is_healthy, seconds, f"{each.described.service} to be healthy", poll_s=1.0)


@contextmanager
def lone_box(folder: Path, store: Path, written: Mapping[str, Path], readable: Mapping[str, Path]) -> Iterator[Box]:
    """A box of the image of the services, for commands that end by themselves. `written`: what they may write."""
    root, hosts = folder / "root", folder / "hosts"
    root.mkdir()
    hosts.write_text(_hosts({}))
    for each in written.values():
        each.mkdir(mode=0o700, exist_ok=True)
        give(each, store.owner())
    with networks(1) as [(network_of, _)]:
        yield Box(root, hosts, network_of, store.owner(), False, written, {_STORE: store, **readable})


class _Boxes:
    """Makes the folders of processes below `folder`, and the identities of one cell."""

    def __init__(self, folder: Path, store: Path) -> None:
        self._folder = folder
        self._store = store
        self._authority = IdentityFolder(folder / "authority")
        self._authority.create("boxes", datetime.now(UTC))

    def box(self, each: Process, network_of: int) -> Box:
        own = self._folder / each.service
        (own / "root").mkdir(parents=True)
        return Box(
            root=own / "root",
            hosts=self._folder / "hosts",
            network_of=network_of,
            account=self._store.owner(),
            has_spark=each.is_task_manager,
            folders={name: self._written(each, name) for name in each.folders},
            readable={
                _STORE: self._store,
                each.environment["PENSTOCK_IDENTITY_DIR"]: self._identity(each),
                **self._secrets(each, own / "secrets"),
            },
        )

    def _written(self, each: Process, name: str) -> Path:
        folder = (self._folder if name in _SHARED else self._folder / each.service) / f"written{name.replace('/', '_')}"
        folder.mkdir(mode=0o700, exist_ok=True)
        give(folder, self._store.owner())
        return folder

    def _secrets(self, each: Process, into: Path) -> dict[str, Path]:
        """The folders of the files that its variables name, with a password or a certificate in each file."""
        found = {}
        for variable, path in each.files.items():
            above, _, name = path.rpartition("/")
            found[above] = into / above.replace("/", "_")
            found[above].mkdir(parents=True, exist_ok=True)
            is_password = variable.endswith("PASSWORD_FILE")
            certificate = (self._folder / "authority" / "authority.crt").read_text()
            (found[above] / name).write_text("some\n" if is_password else certificate)
            give(found[above], self._store.owner())
        return found

    def _identity(self, each: Process) -> Path:
        """What `penstock certificates issue` writes."""
        role, folder = Role(each.service), self._folder / each.service / "identity"
        caller = Caller(role, each.environment["PENSTOCK_CONTAINER"] if role is Role.TASK_MANAGER else None)
        self._authority.issue(caller, each.hosts, datetime.now(UTC), to=folder)
        give(folder, self._store.owner())
        return folder


def _hosts(addresses: Mapping[tuple[str, ...], str]) -> str:
    lines = [f"{address} {' '.join(names)}" for names, address in addresses.items()]
    return "\n".join(["127.0.0.1 localhost", *lines, ""])


def give(folder: Path, account: str) -> None:
    """Makes a folder, and what is in it, the account's."""
    found = pwd.getpwnam(account)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, found.pw_uid, found.pw_gid)


def url_in_a_box(role: str, database_url: str) -> str:
    """The address of a database of the tests' server as processes in boxes reach it."""
    return f"postgresql://{role}@/{urlsplit(database_url).path.strip('/')}?host={_STORE}"


def _environment(each: Process, database_url: str) -> dict[str, str]:
    """As described, but with the store of the test, by the role of the process."""
    url = url_in_a_box(TASK_MANAGER if each.is_task_manager else SERVICE, database_url)
    return {name: url if name == "PENSTOCK_DATABASE_URL" else value for name, value in each.environment.items()}
