"""What the HTTP side of every service shares: problems, health, metrics, and the server itself."""

from __future__ import annotations

import gc
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, Protocol, TypeVar

import orjson
import uvicorn
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, Counter, generate_latest
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from penstock.config.pattern_words import message_of
from penstock.control.errors import PenstockError
from penstock.control.logs import logger
from penstock.control.settings import CommonSettings, HttpLimits
from penstock.identity.process import ProcessIdentity
from penstock.wire import docs
from penstock.wire.gate import Gate, known_caller
from penstock.wire.problems import penstock_error, problem
from penstock.wire.slow_clients import allow_connections, guarded
from penstock.wire.tls_door import behind_tls
from penstock.wire.traces import Traces

log = logger(__name__)
REQUEST_FAILURES = Counter("penstock_request_failures", "requests that were answered by a 5xx", ["error"])
T = TypeVar("T")
_OPERATIONS_THREADS = 2
_TITLE = "penstock "


class OwnThreads:
    """Worker threads that are not shared with the rest of an application, `count` of them."""

    def __init__(self, count: int) -> None:
        self._limiter = CapacityLimiter(count)

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Calls a function in one of them. Raises what it raises."""
        return await run_sync(function, *args, limiter=self._limiter)


def create_app(service: str, *, ready: Callable[[], dict[str, Any]], documents: bool = True, **kwargs: Any) -> FastAPI:
    """A FastAPI application with `/healthz`, `/readyz`, `/metrics`, `/docs` and problems for every error.

    Without `documents` there is no `/docs` and no `/openapi.json`.
    `ready` gives the body of `/readyz`, or raises a PenstockError when the service cannot work now. These three calls
    have threads of their own, so they are answered even while all other threads wait for the store. `/metrics` does not
    share its thread with `ready`, which may wait for the store.
    """
    app = _new_app(service, openapi_url=None, **kwargs)
    threads = _add_operations(app, service)

    @app.get("/readyz", tags=["operations"])
    async def readyz() -> dict[str, Any]:
        return {"service": service, **await threads.run(ready)}

    if documents:
        _add_documents(app, threads)
    return app


def create_internal_app(
    service: str, *, ready: Callable[[], dict[str, Any]], identity: ProcessIdentity, open_metrics: bool = False
) -> FastAPI:
    """As `create_app`, for the port of a service that only processes of the cell call (`penstock.identity.rules`).

    Who is not of the cell learns from `/readyz` only whether the service is ready. `open_metrics`: `/metrics` asks for
    no identity, also with TLS.
    """
    app = _new_app(service, openapi_url=None)
    threads = _add_operations(app, service)

    @app.get("/readyz", tags=["operations"])
    async def readyz(request: Request) -> dict[str, Any]:
        found = await threads.run(ready)
        if known_caller(request) is None:
            return {"service": service, "status": "ready"}
        return {"service": service, **found, **_end_of_certificate(identity)}

    app.add_middleware(Gate, service=service, identity=identity, open_metrics=open_metrics)
    return app


def add_routes(app: FastAPI, router: APIRouter) -> None:
    """Adds the routes of a router as they are. FastAPI's `include_router` builds each of them once more, and looks
    through two levels of routes at each call."""
    app.router.routes.extend(router.routes)


def _end_of_certificate(identity: ProcessIdentity) -> dict[str, float]:
    seconds = identity.seconds_left()
    return {} if seconds is None else {"certificate_days_left": round(seconds / 86_400, 1)}


def _new_app(service: str, **kwargs: Any) -> FastAPI:
    # A redirect would lead to whatever host the request names.
    # FastAPI's telemetry looks for providers at each call, which nothing here sets: a tenth of a small call.
    silent: Any = {"tracing": False, "metrics": False, "logs": False}
    named = f"{_TITLE}{service}"
    app = FastAPI(title=named, redirect_slashes=False, docs_url=None, redoc_url=None, telemetry=silent, **kwargs)
    _add_error_handlers(app)
    return app


def _add_operations(app: FastAPI, service: str) -> OwnThreads:
    """`/healthz` and `/metrics`; threads for other calls of operators."""
    threads, scrapes = OwnThreads(_OPERATIONS_THREADS), OwnThreads(1)

    @app.get("/healthz", tags=["operations"])
    async def healthz() -> dict[str, str]:
        return {"service": service, "status": "alive"}

    @app.get("/metrics", tags=["operations"], response_class=Response)
    async def metrics() -> Response:
        return Response(await scrapes.run(generate_latest), media_type=CONTENT_TYPE_LATEST)

    return threads


def _add_documents(app: FastAPI, threads: OwnThreads) -> None:
    """`/openapi.json` and `/docs`, which need no token: each is made once, and not where requests are answered."""

    @cache
    def document() -> bytes:
        return orjson.dumps(app.openapi())

    @cache
    def page() -> str:
        return docs.page(app.openapi())

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(await threads.run(document), media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def documentation() -> HTMLResponse:
        return HTMLResponse(await threads.run(page), headers=docs.HEADERS)


def _add_error_handlers(app: FastAPI) -> None:
    app.exception_handler(PenstockError)(_penstock_error)
    app.exception_handler(RequestValidationError)(_invalid_request)
    app.exception_handler(HTTPException)(_http_error)
    app.exception_handler(Exception)(_bug)


def _penstock_error(_: Request, error: PenstockError) -> JSONResponse:
    response = penstock_error(error)
    if response.status_code >= 500:
        REQUEST_FAILURES.labels(type(error).__name__).inc()
    return response


def _invalid_request(_: Request, error: RequestValidationError) -> JSONResponse:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return problem(422, "InvalidRequest", f"body: {first['ctx']['error']}", field="body", rule="json_invalid")
    where = first["loc"][1:] if first["loc"][0] == "path" else first["loc"]
    field = ".".join(str(part) for part in where)
    return problem(422, "InvalidRequest", f"{field}: {message_of(first)}", field=field, rule=first["type"])


def _http_error(request: Request, error: HTTPException) -> JSONResponse:
    response = problem(error.status_code, str(error.detail), str(error.detail))
    response.headers.update(error.headers or {})
    if error.status_code == 405 and (methods := _methods(request)):
        response.headers["Allow"] = ", ".join(sorted(methods))
    return response


def _methods(request: Request) -> set[str]:
    """All methods of the path of a request, by the document. A route knows only its own, and each method has one."""
    paths = request.app.openapi()["paths"]
    found = [calls for path, calls in paths.items() if compile_path(path)[0].match(request.scope["path"])]
    return {method.upper() for calls in found for method in calls}


def _bug(request: Request, error: Exception) -> JSONResponse:
    REQUEST_FAILURES.labels(type(error).__name__).inc()
    log.error("request broke", path=request.url.path, error=repr(error))
    return problem(500, "InternalError", "this is a bug in Penstock; see the log of the service")


class Part(Protocol):
    """A part of a process that works in threads of its own, such as a control loop."""

    def start(self) -> None:
        """Begins."""
        ...

    def stop(self) -> None:
        """Ends."""
        ...


def traces_of(settings: CommonSettings, service: str) -> list[Traces]:
    """What sends traces, if the settings name a collector."""
    return [] if settings.traces_url is None else [Traces(settings.traces_url, service)]


def serve(
    app: FastAPI,
    host: str,
    port: int,
    *parts: Part,
    tls: ssl.SSLContext | None = None,
    grace_seconds: float = 3.0,
    limits: HttpLimits | None = None,
) -> None:
    """Starts `parts`, serves until SIGTERM or SIGINT, then stops them, last first, and returns. Sends traces where the
    settings name a collector.

    `tls`: the port speaks TLS with this context. Requests under way get `grace_seconds` to end. `limits` of slow
    clients: by default those of the settings.
    """
    settings = CommonSettings()
    traces = traces_of(settings, app.title.removeprefix(_TITLE))
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        # A warning is about a client; what is to be told of clients is in `slow_clients`.
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=int(grace_seconds),
        **connections(tls, limits or settings.http_limits()),
    )
    # What the process is made of stays: no collection of garbage looks at it any more.
    gc.collect()
    gc.freeze()
    with ExitStack() as started:
        for part in (*traces, *parts):
            part.start()
            started.callback(part.stop)
        with _surviving_signals():
            Server(config).run()


class Server(uvicorn.Server):
    """Before it waits for requests under way, it ends what they wait for (`at_end`)."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the requests under way; what is not over after the grace is cut off."""
        app = self.config.app
        for end in getattr(app.state, "at_end", ()) if isinstance(app, FastAPI) else ():
            end()
        await super().shutdown(sockets)


def at_end(app: FastAPI, end: Callable[[], None]) -> None:
    """Calls `end` in the event loop when the server of the application begins to stop: requests that wait for something
    to happen should then answer."""
    app.state.at_end = (*getattr(app.state, "at_end", ()), end)


def tls_of(identity: ProcessIdentity) -> ssl.SSLContext | None:
    """The context of an internal port; None where it is only this machine's."""
    return identity.server_context() if identity.tls else None


def connections(tls: ssl.SSLContext | None, limits: HttpLimits) -> dict[str, Any]:
    """Options of `uvicorn.Config` for a port that keeps these limits of slow clients, and speaks TLS with this context.

    None: it speaks no TLS.
    """
    kept = allow_connections(limits)
    http = guarded(kept)
    served = http if tls is None else behind_tls(http, kept, tls)
    # Unlike uvicorn's defaults: no uvloop, in which `tls_door` ends no handshake; and no X-Forwarded-For, by which who
    # calls from this machine would say from which address.
    own = {"loop": "asyncio", "proxy_headers": False}
    return {**own, "http": served, "timeout_keep_alive": kept.idle_seconds}


@contextmanager
def _surviving_signals() -> Iterator[None]:
    """At its end uvicorn raises the signal that stopped it once more. That must not end the process, because callers
    still have loops and children to stop. A second signal from outside, later, does end it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
