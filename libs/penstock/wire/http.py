"""What HTTP clients of Penstock's services share: problems become errors, and reads are tried again."""

from __future__ import annotations

import random
import re
import ssl
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol, Self
from urllib.parse import quote

import httpx

from penstock.control import errors
from penstock.control.errors import PenstockError, Unavailable, UserError, VersionConflict
from penstock.control.texts import clean
from penstock.identity.renewing import RenewingTransport
from penstock.identity.roles import Caller

_STATUS_OF_GATEWAYS = (502, 503, 504)
_READ_ATTEMPTS = 3
_FIRST_PAUSE_SECONDS = 0.1
_PLAIN_HERE = re.compile(r"http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(/|$)")
_BY_NAME: dict[str, type[PenstockError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, PenstockError)
}
_BY_STATUS: dict[int, type[UserError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    422: errors.InvalidConfig,
    428: errors.PreconditionRequired,
    429: errors.TooManyCalls,
}


@cache
def certificates(*, trust_env: bool = True) -> ssl.SSLContext:
    """The certificates that clients trust, read once a process: reading them takes 20 ms. `trust_env` as in httpx."""
    return httpx.create_ssl_context(trust_env=trust_env)


def trusted_by(url: str) -> ssl.SSLContext:
    """The certificates that a client of `url` trusts. A call to this machine without TLS needs none: a context that
    trusts nobody takes no time to make, and refuses whatever would need it all the same."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if _PLAIN_HERE.match(url) else certificates()


def trusting(authority: Path) -> ssl.SSLContext:
    """Trusts what these authorities have issued, and nothing else. Raises UserError when the file cannot be read."""
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"{authority} cannot be read: {error}", field="authority", rule="certificates") from error


def path_of(*segments: str) -> str:
    """The path of a call. A name is one segment, whatever it holds: `/` is escaped, and so is `..`."""
    return "/".join(("", *(quote(each, safe="") if each.strip(".") else "%2E" * len(each) for each in segments)))


def _trusting_transport(authority: Path) -> httpx.BaseTransport:
    def version() -> int:
        return authority.stat().st_mtime_ns if authority.exists() else 0

    return RenewingTransport(lambda: httpx.HTTPTransport(verify=trusting(authority)), version)


class Identity(Protocol):
    """What a client needs of an identity. The simulation has one without files."""

    @property
    def caller(self) -> Caller:
        """Who calls."""
        ...

    def credentials(self) -> tuple[httpx.Auth, httpx.BaseTransport]:
        """What makes a client of `httpx` one of this caller."""
        ...


def internal_client(identity: Identity | None, *, timeout: Any = 5.0) -> httpx.Client:
    """A client for calls between processes of a cell, as this caller; None is nobody, whom few calls are open to."""
    if identity is None:
        return httpx.Client(timeout=timeout, trust_env=False, verify=certificates(trust_env=False))
    auth, transport = identity.credentials()
    return httpx.Client(timeout=timeout, trust_env=False, auth=auth, transport=transport)


def reached(who: str, call: Callable[[], httpx.Response]) -> httpx.Response:
    """What a process answers, also a refusal. Raises Unavailable, which names `who`, when it cannot be reached."""
    try:
        return call()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unavailable(f"{who} cannot be reached: {error!r}") from error


def answered(who: str, call: Callable[[], httpx.Response]) -> httpx.Response:
    """What a process answers. Raises Unavailable when it cannot be reached, and the error that a refusal stands for."""
    response = reached(who, call)
    if response.is_error:
        raise error_of(response)
    return response


class HttpClient:
    """A synchronous client of one service; safe to share between threads.

    Every refusal is raised as the error that the service named; a service that cannot be reached is `Unavailable`.
    Only reads are tried again, `read_attempts` times in all, without tenacity: the CLI would wait for its import.
    `authority`: a file of certificates that are trusted instead of the machine's, such as `authority.crt` of a cell; it
    is read again when it changes, and no proxy is used. `on_request` may change each request before it is sent.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_seconds: float = 10.0,
        authority: Path | None = None,
        read_attempts: int = _READ_ATTEMPTS,
        on_request: Callable[[httpx.Request], None] | None = None,
    ) -> None:
        self._read_attempts = read_attempts
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        verify = trusted_by(url)
        transport = None if authority is None else _trusting_transport(authority)
        self._http = httpx.Client(
            base_url=url,
            headers=headers,
            timeout=timeout_seconds,
            verify=verify,
            transport=transport,
            event_hooks={"request": [] if on_request is None else [on_request]},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def read(self, path: str, /, **query: Any) -> httpx.Response:
        """GET; query parameters that are None are left out. Raises PenstockError."""
        given = {name: value for name, value in query.items() if value is not None}
        for attempt in range(1, self._read_attempts):
            try:
                return self.send("GET", path, params=given)
            except Unavailable:
                time.sleep(_FIRST_PAUSE_SECONDS * (attempt + random.random()))
        return self.send("GET", path, params=given)

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request, once; `options` are httpx's. Raises PenstockError."""
        try:
            response = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise Unavailable(f"{self._http.base_url} cannot be reached: {error}") from error
        if response.is_error:
            raise error_of(response)
        return response


def error_of(response: httpx.Response) -> PenstockError:
    """The error that a refusal stands for: by its problem's title where it has one, else by its status."""
    problem = problem_of(response)
    detail = clean(str(problem.pop("detail", "") or f"{response.status_code} {response.reason_phrase}"))
    kind = _BY_NAME.get(str(problem.pop("title", "")))
    field, rule = problem.pop("field", None), problem.pop("rule", None)
    extra = {name: value for name, value in problem.items() if name not in ("type", "status")}
    if kind is VersionConflict:
        return VersionConflict(detail, current_version=int(extra.get("current_version", 0)), field=field)
    kind = kind or _kind_of_status(response)
    return kind(detail, field=field, rule=rule, **extra) if issubclass(kind, UserError) else kind(detail, **extra)


def _kind_of_status(response: httpx.Response) -> type[PenstockError]:
    if response.status_code in _STATUS_OF_GATEWAYS:
        return Unavailable
    return _BY_STATUS.get(response.status_code, UserError) if response.is_client_error else PenstockError


def problem_of(response: httpx.Response) -> dict[str, Any]:
    """The problem that a refusal tells; empty when it is none."""
    try:
        body = response.json()
    except ValueError:
        return {}
    return dict(body) if isinstance(body, dict) else {}
