"""Who this process is to the others of its cell, and how it knows them. It reads its files again when they change."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from penstock.control.errors import TerminalError, Unauthenticated
from penstock.control.logs import logger
from penstock.identity.authority import cell_of, read
from penstock.identity.folder import AUTHORITY, AUTHORITY_KEY, LOOPBACK_KEY, read_private
from penstock.identity.metrics import observe_certificate
from penstock.identity.roles import Caller, caller_in
from penstock.identity.statements import statement, verified

log = logger(__name__)
WARN_BELOW_SECONDS = 14 * 86_400.0
_LOOK_EVERY_SECONDS = 1.0
_WARN_EVERY_SECONDS = 3600.0
_READ_ATTEMPTS = 3

Version = tuple[int, ...]


class Settings(Protocol):
    """What `penstock.control.settings` says about it."""

    def identity_folder(self) -> Path:
        """The folder of the process's files."""
        ...

    def uses_tls(self) -> bool:
        """Whether the internal port is served with TLS."""
        ...


class ProcessIdentity:
    """Safe from any thread. `tls`: whether this process serves TLS, so that callers show certificates."""

    def __init__(
        self, folder: Path, caller: Caller, *, tls: bool = False, now: Callable[[], float] = time.time
    ) -> None:
        self.caller = caller
        self.tls = tls
        self.now = now
        self._authority = folder / AUTHORITY
        self._authority_key = folder / AUTHORITY_KEY
        self._certificate = folder / f"{caller.file_name}.crt"
        self._key = folder / f"{caller.file_name}.key"
        self._loopback = folder / LOOPBACK_KEY
        self._lock = threading.Lock()
        self._version: Version = ()
        self._looked_at = self._warned_at = float("-inf")
        self._secrets: tuple[Version, tuple[bytes, ...]] = ((), ())
        self._server: tuple[Version, ssl.SSLContext] | None = None

    def require(self) -> None:
        """Raises TerminalError, with what to do, when the process cannot show who it is."""
        missing = [path for path in self._needed() if not path.is_file()]
        if missing:
            raise TerminalError(
                f"{self.caller} has no identity: {', '.join(map(str, missing))} missing. {self._how_to_get_one()}"
            )
        if not self.tls:
            self._known_secrets()
            return
        self._new_server_context(ssl.CERT_OPTIONAL)
        found = read(self._certificate.read_bytes(), cell_of(self._authority.read_bytes()))
        if found.caller != self.caller:
            raise TerminalError(f"{self._certificate} is of {found.caller}, this process is {self.caller}")
        if found.expires_at.timestamp() <= self.now():
            raise TerminalError(f"{self._certificate} expired at {found.expires_at}. {self._how_to_get_one()}")

    def version(self, *, at_once: bool = False) -> Version:
        """Changes when a file does. Looks once a second at most, unless `at_once`, and says when the certificate ends
        soon."""
        monotonic = time.monotonic()
        with self._lock:
            if monotonic - self._looked_at < _LOOK_EVERY_SECONDS and not at_once:
                return self._version
            self._looked_at = monotonic
            before, self._version = self._version, self._read_version()
            if before and before != self._version:
                log.info("identity changed", caller=str(self.caller))
            version, warn = self._version, monotonic - self._warned_at >= _WARN_EVERY_SECONDS
            if warn:
                self._warned_at = monotonic
        if warn:
            self._warn()
        return version

    def seconds_left(self) -> float | None:
        """How long the certificate is good; None without one."""
        expires_at = self._expires_at()
        return None if expires_at is None else expires_at.timestamp() - self.now()

    def statement(self, method: str, target: str) -> str:
        """A signed statement for one call on this machine. Raises TerminalError without the secret."""
        self.version()
        return statement(self._known_secrets()[0], self.caller, method, target, self.now())

    def verified(self, text: str, method: str, target: str) -> Caller:
        """Who a statement says calls. Raises Unauthenticated."""
        version = self.version()
        try:
            return self._verified(text, method, target)
        except Unauthenticated:
            # The caller may know a newer secret than this process.
            if self.version(at_once=True) == version:
                raise
            return self._verified(text, method, target)

    def _verified(self, text: str, method: str, target: str) -> Caller:
        try:
            return verified(self._known_secrets(), text, method, target, self.now())
        except (TerminalError, OSError) as error:
            raise Unauthenticated(f"this process cannot check statements: {error}") from error

    def caller_in(self, uris: list[str]) -> Caller | None:
        """The caller that a certificate names. TLS has checked that the cell's authority issued it."""
        return caller_in(uris, cell_of(self._authority.read_bytes()))

    def client_context(self) -> ssl.SSLContext:
        """For calls by `https`: trusts the cell's authority, and shows the certificate where there is one."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._fill(context, required=False)
        return context

    def server_context(self, *, ask: bool = True) -> ssl.SSLContext:
        """For a port with TLS; each connection gets the newest certificate. Raises TerminalError.

        `ask`: clients are asked for a certificate. One without is let in, and then refused by the rules of the call,
        so that probes can ask `/healthz`.
        """
        mode = ssl.CERT_OPTIONAL if ask else ssl.CERT_NONE
        outer = self._new_server_context(mode)

        def newest(connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            connection.context = self._newest_server_context(mode)

        outer.sni_callback = newest
        return outer

    def _newest_server_context(self, mode: ssl.VerifyMode) -> ssl.SSLContext:
        version = self.version()
        with self._lock:
            known = self._server
        if known is not None and known[0] == version:
            return known[1]
        try:
            context = self._new_server_context(mode)
        except (TerminalError, OSError) as error:
            if known is None:
                raise
            log.warning("new certificate not usable, the one before stays", error=str(error))
            return known[1]
        with self._lock:
            self._server = (version, context)
        return context

    def _new_server_context(self, mode: ssl.VerifyMode) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = mode
        # A session that is resumed would not look at the certificate again.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        self._fill(context, required=True)
        return context

    def _fill(self, context: ssl.SSLContext, *, required: bool) -> None:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if required or self._authority.is_file():
            context.load_verify_locations(self._authority)
        if required or self._certificate.is_file():
            self._load_pair(context)

    def _load_pair(self, context: ssl.SSLContext) -> None:
        """Certificate and key are two files: between their writes they do not match."""
        for attempt in range(_READ_ATTEMPTS):
            try:
                read_private(self._key)
                context.load_cert_chain(self._certificate, self._key)
                return
            except ssl.SSLError as error:
                if attempt == _READ_ATTEMPTS - 1:
                    raise TerminalError(f"{self._certificate} and {self._key} do not fit: {error}") from error
                time.sleep(_LOOK_EVERY_SECONDS / 10)

    def _known_secrets(self) -> tuple[bytes, ...]:
        with self._lock:
            version, secrets = self._secrets
            if secrets and version == self._version:
                return secrets
            secrets = tuple(read_private(self._loopback).split())
            if not secrets:
                raise TerminalError(f"{self._loopback} is empty: delete it and run `penstock init`")
            self._secrets = (self._version, secrets)
            return secrets

    def _needed(self) -> tuple[Path, ...]:
        return (self._authority, self._certificate, self._key) if self.tls else (self._loopback,)

    def _how_to_get_one(self) -> str:
        if not self.tls:
            return (
                "The port is this machine's only, so it needs the secret of the machine: `penstock up` makes it, or "
                "`penstock init`, in the folder PENSTOCK_IDENTITY_DIR. With a folder that `penstock certificates issue "
                "--to` has filled, set PENSTOCK_HOST to an address that other machines reach"
            )
        return (
            f"The port is not only this machine's, so it needs TLS. Run `{self._issue()}` where `penstock init` made "
            "the authority, bring the folder to this machine, and set PENSTOCK_IDENTITY_DIR to it here"
        )

    def _issue(self) -> str:
        container = f" --container {self.caller.container}" if self.caller.container else ""
        return f"penstock certificates issue {self.caller.role}{container} --host NAME --to FOLDER"

    def _read_version(self) -> Version:
        paths = (self._authority, self._certificate, self._key, self._loopback)
        return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)

    def _expires_at(self) -> datetime | None:
        if not self._certificate.is_file() or not self._authority.is_file():
            return None
        return read(self._certificate.read_bytes(), cell_of(self._authority.read_bytes())).expires_at

    def _warn(self) -> None:
        try:
            left = self.seconds_left()
        except TerminalError as error:
            log.warning("certificate cannot be read", error=error.detail)
            return
        if left is not None and left < WARN_BELOW_SECONDS:
            command = "penstock certificates rotate" if self._authority_key.is_file() else self._issue()
            log.warning("certificate ends soon", days_left=round(left / 86_400, 1), run=command)


def identity_of(settings: Settings, caller: Caller) -> ProcessIdentity:
    """The identity of a process with its settings; the end of its certificate becomes a metric.

    Raises SystemExit with what to do when it has none.
    """
    identity = ProcessIdentity(settings.identity_folder(), caller, tls=settings.uses_tls())
    try:
        identity.require()
        if identity.seconds_left() is not None:
            observe_certificate(str(caller), identity.seconds_left)
    except (TerminalError, OSError, ssl.SSLError) as error:
        raise SystemExit(str(error)) from error
    return identity
