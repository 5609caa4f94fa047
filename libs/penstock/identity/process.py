"""Who this process is to the others of its cell, and how it knows them. It reads its files again when they change."""

from __future__ import annotations

import secrets
import ssl
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from penstock.control.errors import TerminalError, Unauthenticated
from penstock.control.logs import logger
from penstock.identity.authority import cell_of, certificates_in, end_of, is_issued_by, is_issued_by_one_of, read
from penstock.identity.folder import AUTHORITY, AUTHORITY_KEY, LOOPBACK_KEY, read_private
from penstock.identity.metrics import observe_certificate
from penstock.identity.roles import ROTATE, WARN_BELOW_DAYS, Caller, Role, caller_in
from penstock.identity.statements import Nonces, Statement, statement, verified
from penstock.identity.vouching import Call, vouch, vouched

log = logger(__name__)
_DAY_SECONDS = 86_400.0
_LOOK_EVERY_SECONDS = 1.0
_WARN_EVERY_SECONDS = 3600.0

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
        self._nonces = Nonces()
        self._secrets: tuple[Version, tuple[bytes, ...]] = ((), ())
        self._server: tuple[Version, ssl.SSLContext] | None = None
        self._mode = ssl.CERT_OPTIONAL
        self._authorities: tuple[x509.Certificate, ...] = ()
        self._trusted: set[bytes] = set()
        self._cell = ""
        self._ends_at: datetime | None = None
        self._end_version: Version = ()

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
        self._new_server_context()
        certificate, authorities = self._certificate.read_bytes(), self._authority.read_bytes()
        found = read(certificate, cell_of(authorities))
        if found.caller != self.caller:
            raise TerminalError(f"{self._certificate} is of {found.caller}, this process is {self.caller}")
        if found.expires_at.timestamp() <= self.now():
            raise TerminalError(f"{self._certificate} expired at {found.expires_at}. {self._how_to_get_one()}")
        if not is_issued_by(certificate, authorities):
            raise TerminalError(
                f"no authority in {self._authority} has issued {self._certificate}: the two files are of different "
                f"times, or cells. {self._how_to_get_one()}"
            )

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
        """How long the certificate in use is good; None without one."""
        expires_at = self._expires_at()
        return None if expires_at is None else expires_at.timestamp() - self.now()

    def statement(self, method: str, target: str, body: bytes = b"") -> str:
        """A signed statement for one call on this machine. Raises TerminalError without the secret."""
        self.version()
        secret, nonce = self._known_secrets()[0], secrets.token_hex(16)
        return statement(secret, self.caller, method, target, body, nonce=nonce, now=self.now())

    def verified(self, text: str, method: str, target: str) -> Statement:
        """What a statement says, which is good once. Raises Unauthenticated."""
        version = self.version()
        try:
            found = self._verified(text, method, target)
        except Unauthenticated:
            # The caller may know a newer secret than this process.
            if self.version(at_once=True) == version:
                raise
            found = self._verified(text, method, target)
        with self._lock:
            self._nonces.take(found.nonce, self.now())
        return found

    def vouch(self, address: str, call: Call) -> str:
        """Tells the Job Service the address of the browser for which this process calls. Raises TerminalError, OSError
        and ValueError without a certificate that can be used."""
        return vouch(self._certificate.read_bytes(), read_private(self._key), address, call, self.now())

    def vouched(self, text: str, call: Call) -> str:
        """The address of a browser that a console of this cell tells. Raises Unauthenticated."""
        return vouched(text, call, self.now(), self._is_console)

    def _is_console(self, certificate: x509.Certificate) -> bool:
        try:
            authorities = self._authority.read_bytes()
            if not is_issued_by_one_of(certificate, certificates_in(authorities)):
                return False
            found = read(certificate.public_bytes(Encoding.PEM), cell_of(authorities))
        except (TerminalError, OSError, ValueError, x509.DuplicateExtension, UnsupportedAlgorithm) as error:
            log.warning("certificate of a console not read", error=str(error))
            return False
        return found.caller == Caller(Role.CONSOLE) and found.expires_at.timestamp() > self.now()

    def _verified(self, text: str, method: str, target: str) -> Statement:
        try:
            return verified(self._known_secrets(), text, method, target, self.now())
        except (TerminalError, OSError) as error:
            raise Unauthenticated(f"this process cannot check statements: {error}") from error

    def caller_in(self, uris: list[str]) -> Caller | None:
        """The caller that a certificate names. TLS has checked that the cell's authority issued it."""
        # The cell of a process never changes: its files may be away for a moment.
        self._cell = self._cell or cell_of(self._authority.read_bytes())
        return caller_in(uris, self._cell)

    def trusts(self, certificate: bytes) -> bool:
        """Whether the port, served with TLS, would let a new connection with a certificate (DER) in now: one of the
        authorities that it trusts has issued it. TLS has let it in once. Each is checked once, until files change."""
        self._newest_server_context()
        with self._lock:
            authorities, trusted = self._authorities, self._trusted
        if certificate not in trusted:
            try:
                if not is_issued_by_one_of(x509.load_der_x509_certificate(certificate), authorities):
                    return False
            except ValueError:
                return False
            trusted.add(certificate)
        return True

    def client_context(self) -> ssl.SSLContext:
        """For calls by `https`: trusts the cell's authority, and shows the certificate where there is one.

        Raises TerminalError and OSError when the files cannot be used, or had a certificate and have none now.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._fill(context, required=self._ends_at is not None)
        return context

    def server_context(self, *, ask: bool = True) -> ssl.SSLContext:
        """For a port with TLS; each connection gets the files of its moment. Raises TerminalError.

        `ask`: clients are asked for a certificate. One without is let in, and then refused by the rules of the call,
        so that probes can ask `/healthz`.
        """
        self._mode = ssl.CERT_OPTIONAL if ask else ssl.CERT_NONE
        outer, self._authorities = self._new_server_context()
        self._server = ((), outer)

        def newest(connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            # The caller may have a newer certificate, of a newer authority, than this process has looked for.
            self.version(at_once=True)
            connection.context = self._newest_server_context()

        outer.sni_callback = newest
        return outer

    def _newest_server_context(self) -> ssl.SSLContext:
        """Called in each handshake and for each call, on the event loop: it may not wait. Files that are not usable are
        tried once."""
        version = self.version()
        with self._lock:
            assert self._server is not None
            known_version, context = self._server
        if known_version == version:
            return context
        try:
            context, authorities = self._new_server_context()
        except (TerminalError, OSError) as error:
            log.warning("new certificate not usable, the one before stays", error=str(error))
            authorities = self._authorities
        with self._lock:
            self._server = (version, context)
            self._authorities, self._trusted = authorities, set()
        return context

    def _new_server_context(self) -> tuple[ssl.SSLContext, tuple[x509.Certificate, ...]]:
        """With the authorities that it trusts."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = self._mode
        # A session that is resumed would not look at the certificate again.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        self._fill(context, required=True)
        return context, certificates_in(self._authority.read_bytes())

    def _fill(self, context: ssl.SSLContext, *, required: bool) -> None:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if required or self._authority.is_file():
            context.load_verify_locations(self._authority)
        if required or self._certificate.is_file():
            self._load_pair(context)

    def _load_pair(self, context: ssl.SSLContext) -> None:
        """Certificate and key are two files: between their writes they do not fit, and TerminalError is raised."""
        read_private(self._key)
        try:
            context.load_cert_chain(self._certificate, self._key)
        except ssl.SSLError as error:
            raise TerminalError(f"{self._certificate} and {self._key} do not fit: {error}") from error
        self._ends_at = end_of(self._certificate.read_bytes())

    def _known_secrets(self) -> tuple[bytes, ...]:
        with self._lock:
            version, secrets = self._secrets
            if secrets and version == self._version:
                return secrets
            try:
                secrets = self._read_secrets()
            except (TerminalError, OSError) as error:
                if not secrets:
                    raise
                log.warning("new secret not usable, the one before stays", error=str(error))
            self._secrets = (self._version, secrets)
            return secrets

    def _read_secrets(self) -> tuple[bytes, ...]:
        secrets = tuple(read_private(self._loopback).split())
        if not secrets:
            raise TerminalError(f"{self._loopback} is empty: delete it and run `penstock init`")
        return secrets

    def _needed(self) -> tuple[Path, ...]:
        return (self._authority, self._certificate, self._key) if self.tls else (self._loopback,)

    def _how_to_get_one(self) -> str:
        if not self.tls:
            return (
                "The port is this machine's only, so it needs the secret of the machine: `penstock up` makes it, or "
                "`penstock init`, in the folder PENSTOCK_IDENTITY_DIR. With a folder that `penstock certificates issue "
                "--to` has filled, set PENSTOCK_INTERNAL_TLS to true, or PENSTOCK_HOST to an address that other "
                "machines reach"
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
        return tuple(number for path in paths for number in _stat_of(path))

    def _expires_at(self) -> datetime | None:
        """Of the files where they can be used, else of what was read last. They are loaded only when they changed."""
        version = self._read_version()
        if self._ends_at is None and not self._certificate.is_file():
            return None
        if version == self._end_version:
            return self._ends_at
        try:
            self._load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        except (TerminalError, OSError):
            if self._ends_at is None:
                raise
        self._end_version = version
        return self._ends_at

    def _warn(self) -> None:
        try:
            left = self.seconds_left()
        except (TerminalError, OSError) as error:
            log.warning("certificate cannot be read", error=str(error))
            return
        if left is not None and left < WARN_BELOW_DAYS * _DAY_SECONDS:
            command = ROTATE if self._authority_key.is_file() else self._issue()
            log.warning("certificate ends soon", days_left=round(left / _DAY_SECONDS, 1), run=command)


def _stat_of(path: Path) -> Version:
    """What tells two contents of a file apart, also of two that were written in one tick of the kernel's clock."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


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
