"""The files of a cell's identity, in one folder. Keys are readable by their owner only.

`authority.crt`: the certificates of all authorities that are trusted, the newest first; `authority.key`: the key of the
newest, only where certificates are issued. `loopback.key`: the secrets of signed statements, one a line, the newest
first. `<role>[.<container>].crt` and `.key`: a process. `elsewhere/*.json`: what was issued to other folders; no keys.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from penstock.control.errors import NotFound, TerminalError, UserError
from penstock.control.private import PRIVATE_FILE, PRIVATE_FOLDER
from penstock.identity.authority import (
    CERTIFICATE_DAYS,
    Issued,
    Pair,
    cell_of,
    fits,
    issue,
    key_of,
    new_authority,
    read,
)
from penstock.identity.records import Record, good_now, read_record, record_of, written
from penstock.identity.roles import Caller

AUTHORITY = "authority.crt"
AUTHORITY_KEY = "authority.key"
LOOPBACK_KEY = "loopback.key"
ELSEWHERE = "elsewhere"
_END = b"-----END CERTIFICATE-----\n"
_PUBLIC_FILE = 0o644
_SECRETS_KEPT = 2

New = tuple[Path, bytes, int]
"""A file to write: its path, content and mode."""


class IdentityFolder:
    """Makes and renews identities. Raises OSError when the folder cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, cell: str, now: datetime) -> None:
        """Makes the authority and the loopback secret, each unless it is there."""
        self.path.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        if not (self.path / AUTHORITY).exists():
            pair = new_authority(cell, now)
            # The certificate comes last: a next call makes both anew while it is not there.
            _replace_in_turn(self._authority_key(pair), (self.path / AUTHORITY, pair.certificate, _PUBLIC_FILE))
        if not (self.path / LOOPBACK_KEY).exists():
            self.renew_secret()

    def renew_secret(self) -> None:
        """Statements are signed with a new secret. The one before is still accepted, until the next call of this."""
        path = self.path / LOOPBACK_KEY
        before = path.read_bytes().split() if path.exists() else []
        kept = [secrets.token_hex(32).encode(), *before][:_SECRETS_KEPT]
        _replace(path, b"".join(line + b"\n" for line in kept), PRIVATE_FILE)

    def issue(
        self,
        caller: Caller,
        hosts: Iterable[str],
        now: datetime,
        *,
        days: float = CERTIFICATE_DAYS,
        to: Path | None = None,
    ) -> None:
        """Writes a certificate for a process: here; or to the folder `to`, with all that a process with TLS needs, and
        a record of it here."""
        to = None if to is None or to.resolve() == self.path.resolve() else to
        folder = to or self.path
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        pair = issue(self._authority(), caller, hosts, now, days=days)
        if to is not None:
            _replace(to / AUTHORITY, self.trusted(), _PUBLIC_FILE)
        _replace_in_turn(
            (folder / f"{caller.file_name}.key", pair.key, PRIVATE_FILE),
            (folder / f"{caller.file_name}.crt", pair.certificate, _PUBLIC_FILE),
        )
        if to is not None:
            self._record(record_of(caller, read(pair.certificate, cell_of(self.trusted())), str(to.resolve())))

    def issued(self) -> Iterator[Issued]:
        """The certificates in the folder, by name."""
        cell = cell_of(self.trusted())
        for path in sorted(self.path.glob("*.crt")):
            if path.name != AUTHORITY:
                yield read(path.read_bytes(), cell)

    def elsewhere(self, now: datetime) -> list[Record]:
        """What was issued to other folders from here, and is good now. Raises TerminalError for a damaged record."""
        found = []
        for path in sorted((self.path / ELSEWHERE).glob("*.json")):
            try:
                found.append(read_record(path.read_bytes()))
            except ValueError as error:
                raise TerminalError(f"{path} is no record of a certificate: {error}") from error
        return good_now(found, now)

    def renew(self, now: datetime, *, days: float = CERTIFICATE_DAYS) -> list[Caller]:
        """Issues every certificate in the folder again, for the same hosts, by the newest authority."""
        found = [(each.caller, each.hosts) for each in self.issued() if each.caller is not None]
        for caller, hosts in found:
            self.issue(caller, hosts, now, days=days)
        return [caller for caller, _ in found]

    def add_authority(self, now: datetime) -> None:
        """A new authority beside those that are trusted. It issues from now on."""
        trusted = self.trusted()
        pair = new_authority(cell_of(trusted), now)
        # The key comes last: until it is there, the authority before issues, which is still trusted.
        _replace_in_turn((self.path / AUTHORITY, pair.certificate + trusted, _PUBLIC_FILE), self._authority_key(pair))

    def drop_old_authorities(self, now: datetime, *, unseen: bool = False) -> int:
        """Trusts only the authority that issues. Returns how many are not trusted any more.

        Raises UserError while a certificate of an old one is here, or was issued from here to another folder and is
        good. With `unseen` those of other folders do not count.
        """
        newest = self._authority().certificate
        old = [each for each in _certificates(self.trusted()) if each != newest]
        old_keys = {key_of(each) for each in old}
        here = [str(each.caller) for each in self.issued() if each.authority in old_keys]
        if here:
            raise _still_used(here, "run `penstock certificates rotate` first")
        others = [each.command() for each in self.elsewhere(now) if each.authority in old_keys and not unseen]
        if others:
            raise _still_used(others, "issue these again and bring them to their processes; or add --yes")
        _replace(self.path / AUTHORITY, newest, _PUBLIC_FILE)
        return len(old)

    def trusted(self) -> bytes:
        """The certificates of all trusted authorities. Raises NotFound."""
        try:
            return (self.path / AUTHORITY).read_bytes()
        except FileNotFoundError as error:
            raise NotFound(
                f"there is no authority in {self.path}: run `penstock init`, or set PENSTOCK_IDENTITY_DIR",
                field="identity_dir",
                rule="exists",
            ) from error

    def _record(self, record: Record) -> None:
        folder = self.path / ELSEWHERE
        folder.mkdir(exist_ok=True, mode=PRIVATE_FOLDER)
        _replace(folder / record.file_name, written(record), PRIVATE_FILE)

    def _authority(self) -> Pair:
        """The authority that issues. Raises NotFound without its key, TerminalError when that is of no trusted one."""
        trusted = self.trusted()
        try:
            key = (self.path / AUTHORITY_KEY).read_bytes()
        except FileNotFoundError as error:
            raise NotFound(
                f"{self.path} has no key of the authority: issue certificates where `penstock init` made it",
                field="identity_dir",
                rule="authority",
            ) from error
        for certificate in _certificates(trusted):
            if fits(certificate, key):
                return Pair(certificate, key)
        raise TerminalError(
            f"{self.path / AUTHORITY_KEY} is the key of no authority in {self.path / AUTHORITY}, so nothing is issued: "
            "restore both files from one backup"
        )

    def _authority_key(self, pair: Pair) -> New:
        return self.path / AUTHORITY_KEY, pair.key, PRIVATE_FILE


def read_private(path: Path) -> bytes:
    """The content of a key's file. Raises TerminalError when every account may read it, and OSError."""
    if path.stat().st_mode & 0o007:
        raise TerminalError(f"every account of the machine may use {path}: run `chmod 600 {path}`")
    return path.read_bytes()


def _still_used(what: list[str], advice: str) -> UserError:
    return UserError(f"an old authority issued {'; '.join(what)}: {advice}", field="drop_old", rule="unused")


def _replace(path: Path, content: bytes, mode: int) -> None:
    """Replaces a file at once."""
    _replace_in_turn((path, content, mode))


def _replace_in_turn(*files: New) -> None:
    """Replaces files, one just after the other, when all of them are written: a full disk changes none of them."""
    fresh = [path.with_name(f".{path.name}.{os.getpid()}.new") for path, _, _ in files]
    try:
        for at, (_, content, mode) in zip(fresh, files, strict=True):
            _write(at, content, mode)
        for at, (path, _, _) in zip(fresh, files, strict=True):
            at.replace(path)
    finally:
        for at in fresh:
            at.unlink(missing_ok=True)


def _write(path: Path, content: bytes, mode: int) -> None:
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(mode)


def _certificates(bundle: bytes) -> list[bytes]:
    return [part + _END for part in bundle.split(_END) if part.strip()]
