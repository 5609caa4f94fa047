"""The application: its pages, what they may load, and what is shown in place of a refused one."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from penstock.control.clock import Clock
from penstock.control.errors import PenstockError, Unauthenticated, Unavailable
from penstock.control.logs import logger
from penstock.identity.process import ProcessIdentity
from penstock.local.web import web_files
from penstock.wire.app import add_routes, at_end, create_app
from penstock.wire.http import HttpClient, trusted_by, trusting
from penstock.wire.job_client import JobClient
from penstock.wire.problems import penstock_error
from services.console.assets import STATIC, addresses
from services.console.browsers import teller
from services.console.live.follower import Follower
from services.console.live.stream import Live
from services.console.live.watches import Watches
from services.console.requests import Parts, SignInNeeded, is_own_host, page, parts_of, templates
from services.console.routes import alerts, containers, fleet, job, job_forms, live, sign_in
from services.console.sealed import Seal
from services.console.settings import ConsoleSettings
from services.console.views.runbooks import runbooks, sections

log = logger(__name__)
_ROUTES = (sign_in, live, fleet, job, job_forms, containers, alerts)
_ALERTS = Path(__file__).parents[1] / "ALERTS.md"
_READY_SECONDS = 2.0
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
"""What a browser may do with a page: load what the console itself serves, and send forms to it."""
_READY_KEPT_SECONDS = 2.0
_PROBES = ("/healthz", "/readyz", "/metrics")
_NO_ANSWER = "try again in a moment; the log of the console has more"
_FOR_EVER = "public, max-age=31536000, immutable"


def create_console(settings: ConsoleSettings, clock: Clock, identity: ProcessIdentity | None = None) -> FastAPI:
    """The console's application; it asks the Job Service for all that it shows. `identity`: by its certificate it tells
    the Job Service where a browser is; None: it does not."""
    app = create_app("console", ready=_Ready(settings, clock).ask, documents=False)
    secret = settings.console_key.get_secret_value().encode() or secrets.token_bytes(32)
    fetched = web_files()
    loaded = addresses(fetched)
    app.state.parts = Parts(
        seal=Seal(secret, timedelta(seconds=settings.console_session_seconds)),
        clock=clock,
        # An open page asks again by itself: what is slow already is not asked three times.
        connect=lambda token, address: JobClient(
            settings.job_service_url,
            token,
            authority=settings.trusted(),
            read_attempts=1,
            on_request=None if identity is None or address is None else teller(identity, address),
        ),
        live=_live(settings, clock),
        is_secure=settings.is_secure(),
        runbooks=runbooks(_ALERTS.read_text()),
        runbook_sections=sections(_ALERTS.read_text()),
        templates=templates(loaded),
        files=frozenset(loaded.values()),
        session_seconds=settings.console_session_seconds,
        url=settings.console_url,
    )
    for routes in _ROUTES:
        add_routes(app, routes.router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.mount("/web", StaticFiles(directory=fetched[0].parent), name="web")
    at_end(app, app.state.parts.live.end)
    app.exception_handler(SignInNeeded)(_sign_in_needed)
    app.exception_handler(PenstockError)(_refused)
    app.exception_handler(RequestValidationError)(_not_found)
    app.exception_handler(HTTPException)(_http_error)
    app.exception_handler(Exception)(_bug)
    app.middleware("http")(_with_headers)
    return app


def _live(settings: ConsoleSettings, clock: Clock) -> Live:
    def certificates() -> ssl.SSLContext:
        authority = settings.trusted()
        return trusted_by(settings.job_service_url) if authority is None else trusting(authority)

    watches = Watches()
    follower = Follower(settings.job_service_url, certificates, watches, clock, settings.console_refresh_seconds)
    return Live(watches, follower, clock, settings.console_refresh_seconds)


class _Ready:
    """Whether the Job Service answers. Everybody may ask, so it is asked anew only after `_READY_KEPT_SECONDS`."""

    def __init__(self, settings: ConsoleSettings, clock: Clock) -> None:
        self._client = HttpClient(
            settings.job_service_url, timeout_seconds=_READY_SECONDS, authority=settings.trusted()
        )
        self._clock = clock
        self._lock = Lock()
        self._asked_at = float("-inf")
        self._answers = False

    def ask(self) -> dict[str, Any]:
        """The body of `/readyz`. Raises Unavailable."""
        with self._lock:
            if self._clock.monotonic() - self._asked_at > _READY_KEPT_SECONDS:
                self._answers = self._now()
                self._asked_at = self._clock.monotonic()
            if not self._answers:
                raise Unavailable(_NO_ANSWER)
        return {"job_service": "reachable"}

    def _now(self) -> bool:
        try:
            self._client.send("GET", "/healthz")
        except PenstockError as error:
            log.warning("the job service does not answer", error=error.detail)
            return False
        return True


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    if not is_own_host(request) and request.url.path not in _PROBES:
        return _safe(request, _error(request, 421, "This is another address", "the console does not go by this name"))
    return _safe(request, await call_next(request))


def _safe(request: Request, response: Response) -> Response:
    """The response with what a browser may do with it."""
    parts, url = parts_of(request), f"{request.url.path}?{request.url.query}"
    response.headers.update(HEADERS)
    is_present_file = url in parts.files and response.status_code in (200, 206, 304)
    response.headers["Cache-Control"] = _FOR_EVER if is_present_file else "no-store"
    if parts.is_secure:
        response.headers["Strict-Transport-Security"] = "max-age=31536000"
    return response


def _bug(request: Request, error: Exception) -> Response:
    """What no other handler knew. Headers are set here, as this response goes past `_with_headers`."""
    log.error("request broke", path=request.url.path, error=repr(error))
    return _safe(request, _error(request, 500, "This is a bug in Penstock", "see the log of the console"))


def _sign_in_needed(request: Request, _: Exception) -> Response:
    if request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site":
        # A link elsewhere leads here, so the browser kept the cookie back: coming from this page it sends it.
        return HTMLResponse('<!doctype html><title>Penstock</title><meta http-equiv="refresh" content="0">')
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    following = f"?next={quote(target)}" if request.method == "GET" and target != "/" else ""
    response = _to_sign_in(request, f"/sign-in{following}")
    sign_in.forget(request, response)
    return response


def _to_sign_in(request: Request, path: str) -> Response:
    if request.url.path == live.PATH:
        return Response(status_code=401)
    if "hx-request" in request.headers:  # htmx would put the sign-in page into a part of this one
        return Response(headers={"HX-Redirect": path})
    return RedirectResponse(path, status_code=303)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, PenstockError)
    if isinstance(error, Unauthenticated):
        return _sign_in_needed(request, error)
    rule, field = getattr(error, "rule", None), getattr(error, "field", None)
    if isinstance(error, Unavailable):
        if request.url.path in _PROBES:
            return penstock_error(Unavailable(_NO_ANSWER))
        log.warning("the job service does not answer", path=request.url.path, error=error.detail)
        return _error(request, 503, "The Job Service does not answer", _NO_ANSWER)
    titles = {403: "You may not do this", 404: "There is nothing here", 409: "This contradicts the present state"}
    return _error(request, error.status, titles.get(error.status, "This was refused"), error.detail, rule, field)


def _not_found(request: Request, _: Exception) -> Response:
    return _error(request, 404, "There is nothing here", f"{request.url.path} is no page of the console")


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _not_found(request, error)
    response = _error(request, error.status_code, "This was refused", str(error.detail))
    response.headers.update(error.headers or {})
    return response


def _error(
    request: Request, status: int, title: str, detail: str, rule: str | None = None, field: str | None = None
) -> Response:
    return page(request, "error.html", status=status, title=title, detail=detail, rule=rule, field=field)
