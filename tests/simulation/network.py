"""HTTP between simulated processes: late, out of order, twice, never, or one way only. Bodies travel as JSON text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx
import orjson

from penstock.control.errors import PenstockError, UserError
from penstock.identity.roles import Caller
from tests.simulation.processes import Process
from tests.simulation.scheduler import Scheduler
from tests.simulation.scheduler import Thread as Greenlet
from tests.simulation.story import Story

DATABASE = "database"


@dataclass
class Weather:
    """How the network is now: shares of messages that are lost, come twice, or come late by up to `late_seconds`."""

    lost: float = 0.0
    twice: float = 0.0
    late: float = 0.0
    late_seconds: float = 0.0


class Request(NamedTuple):
    """As a server gets it."""

    method: str
    path: str
    query: Mapping[str, Any]
    headers: Mapping[str, str]
    body: bytes
    caller: Caller | None = None


@dataclass(frozen=True)
class Known:
    """A caller, as the door of a service has found it: certificates and signatures are not simulated."""

    caller: Caller

    def credentials(self) -> tuple[Any, Any]:
        """As `penstock.wire.http.Identity`, for the `Client` here."""
        return self.caller, None


class Response:
    """What is used of `httpx.Response`."""

    def __init__(self, status_code: int, content: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self.status_code = status_code
        self.content = content
        self.headers = dict(headers or {"content-type": "application/json"})
        self.reason_phrase = ""
        self.is_error = status_code >= 400
        self.is_client_error = 400 <= status_code < 500
        self.is_server_error = status_code >= 500

    def json(self) -> Any:
        return orjson.loads(self.content)

    def raise_for_status(self) -> Response:
        if self.is_error:
            raise httpx.HTTPError(f"{self.status_code}: {self.content.decode()[:200]}")
        return self


Handle = Callable[[Request], Response]
REFUSED = Response(599)


@dataclass
class Call:
    """A request under way; `thread` waits while it is open."""

    thread: Greenlet
    is_open: bool = True
    response: Response | None = None


@dataclass
class Network:
    """`cut`: ordered pairs of machines between which nothing passes; the job store is one of them."""

    scheduler: Scheduler
    story: Story
    weather: Weather = field(default_factory=Weather)
    cut: set[tuple[str, str]] = field(default_factory=set)
    machines: dict[str, bool] = field(default_factory=dict)
    listeners: dict[str, tuple[Process, Handle]] = field(default_factory=dict)

    def listen(self, host: str, process: Process, handle: Handle) -> None:
        """A process serves `http://<host>`."""
        self.listeners[host] = (process, handle)

    def passes(self, source: str, target: str) -> bool:
        """Whether a message would get through now."""
        return (source, target) not in self.cut

    def request(self, request: Request, host: str, timeout: float) -> Response:
        """Called by a thread, which waits. Raises httpx's errors."""
        thread = self.scheduler.current
        assert thread is not None
        thread.process.port_call()
        call = Call(thread)
        self._send(call, host, request)
        if self.scheduler.random.random() < self.weather.twice:
            self._send(call, host, request)
        self.scheduler.block(thread.process.to_true_seconds(timeout))
        call.is_open = False
        thread.process.port_call()
        if call.response is None:
            raise httpx.ReadTimeout(f"no answer from {host} in {timeout} s")
        if call.response is REFUSED:
            raise httpx.ConnectError(f"{host} refuses")
        return call.response

    def _send(self, call: Call, host: str, request: Request) -> None:
        source = call.thread.process.machine.name
        if self._survives(source, host):
            self.scheduler.after(self._delay(), lambda: self._arrive(call, source, host, request))

    def _arrive(self, call: Call, source: str, host: str, request: Request) -> None:
        process, handle = self.listeners.get(host, (None, None))
        if process is not None and not process.machine.is_up:
            return
        if process is None or handle is None or process.is_dead:
            self._answer(call, host, source, REFUSED)
            return

        def serve() -> None:
            response = respond(handle, request, self.story, process)
            process.port_call()
            self._answer(call, host, source, response)

        process.begin(f"{request.method} {request.path}", serve)

    def _answer(self, call: Call, host: str, source: str, response: Response) -> None:
        if self._survives(host, source):
            self.scheduler.after(self._delay(), lambda: self._answered(call, response))

    def _answered(self, call: Call, response: Response) -> None:
        if call.is_open and call.response is None:
            call.response = response
            self.scheduler.wake(call.thread)

    def _survives(self, source: str, target: str) -> bool:
        return self.passes(source, target) and self.scheduler.random.random() >= self.weather.lost

    def _delay(self) -> float:
        chance = self.scheduler.random.random()
        if self.scheduler.random.random() < self.weather.late:
            return chance * self.weather.late_seconds
        return 0.0005 + chance * 0.005


def respond(handle: Handle, request: Request, story: Story, process: Process) -> Response:
    """As `penstock.wire.app` does: an error on purpose becomes a problem, any other is a bug."""
    try:
        return handle(request)
    except PenstockError as error:
        extra = dict(error.extra)
        if isinstance(error, UserError):
            extra.update(field=error.field, rule=error.rule)
        return problem(error.status, type(error).__name__, error.detail, extra)
    except Exception as error:  # noqa: BLE001 - a server outlives its bugs; the story keeps them
        story.bug(process.name, f"{request.method} {request.path} broke", error)
        return problem(500, "InternalError", "this is a bug in Penstock", {})


def problem(status: int, title: str, detail: str, extra: Mapping[str, Any]) -> Response:
    """An RFC 9457 problem."""
    body = {"title": title, "status": status, "detail": detail, **extra}
    return Response(status, orjson.dumps(body), {"content-type": "application/problem+json"})


class Client:
    """As `httpx.Client`."""

    def __init__(
        self, network: Network, *, timeout: float = 5.0, base_url: str = "", auth: Any = None, **_: Any
    ) -> None:
        self._network = network
        self._timeout = timeout
        self._caller: Caller | None = auth
        self.base_url = base_url

    def request(
        self,
        method: str,
        url: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Response:
        host, _, path = (self.base_url + url).removeprefix("http://").partition("/")
        body = b"" if json is None else orjson.dumps(json, option=orjson.OPT_NON_STR_KEYS)
        request = Request(method, f"/{path}", params or {}, headers or {}, body, self._caller)
        return self._network.request(request, host, self._timeout if timeout is None else timeout)

    def post(self, url: str, **options: Any) -> Response:
        return self.request("POST", url, **options)

    def put(self, url: str, **options: Any) -> Response:
        return self.request("PUT", url, **options)

    def close(self) -> None:
        """There is nothing to close."""


class Http:
    """Stands for the module `httpx`."""

    HTTPError = httpx.HTTPError
    ReadTimeout = httpx.ReadTimeout
    TransportError = httpx.TransportError
    InvalidURL = httpx.InvalidURL
    Response = Response

    def __init__(self, network: Network) -> None:
        self._network = network

    def Timeout(self, seconds: float, *, connect: float) -> float:
        """Whoever is there connects at once, so only the time for the answer counts."""
        return max(seconds, connect)

    def create_ssl_context(self, **_: Any) -> None:
        """Nothing is encrypted here."""

    def Client(self, **options: Any) -> Client:
        return Client(self._network, **options)
