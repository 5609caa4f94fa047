"""What was issued to other folders, recorded beside the authority: it names what must be issued again. Pure."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from penstock.identity.authority import Issued
from penstock.identity.roles import Caller, caller_of


class _Written(BaseModel):
    """The file of a record. Fields of a newer release are ignored."""

    model_config = ConfigDict(extra="ignore")

    process: str
    hosts: list[str]
    folder: str
    expires_at: datetime
    authority: str


@dataclass(frozen=True, slots=True)
class Record:
    """A certificate that is not in the identity folder. `folder`: where it was written to, on the machine that did."""

    caller: Caller
    hosts: tuple[str, ...]
    folder: str
    expires_at: datetime
    authority: str

    @property
    def file_name(self) -> str:
        """One for each process: those of a role differ in their hosts."""
        digest = hashlib.sha256("\n".join(sorted(self.hosts)).encode()).hexdigest()
        return f"{self.caller.file_name}.{digest[:12]}.json"

    def command(self) -> str:
        """What issues it again."""
        container = () if self.caller.container is None else ("--container", self.caller.container)
        hosts = (word for host in self.hosts for word in ("--host", host))
        words = ("penstock", "certificates", "issue", str(self.caller.role), *container, *hosts, "--to", self.folder)
        return shlex.join(words)


def record_of(caller: Caller, issued: Issued, folder: str) -> Record:
    """The record of a certificate that was issued to a folder."""
    return Record(caller, issued.hosts, folder, issued.expires_at, issued.authority)


def written(record: Record) -> bytes:
    """The content of a record's file."""
    content = _Written(
        process=str(record.caller),
        hosts=list(record.hosts),
        folder=record.folder,
        expires_at=record.expires_at,
        authority=record.authority,
    )
    return content.model_dump_json().encode()


def read_record(content: bytes) -> Record:
    """What a record's file says. Raises ValueError."""
    found = _Written.model_validate_json(content)
    return Record(caller_of(found.process), tuple(found.hosts), found.folder, found.expires_at, found.authority)


def good_now(records: Iterable[Record], now: datetime) -> list[Record]:
    """Those that have not expired."""
    return [each for each in records if each.expires_at > now]
