"""What the pages share: who is signed in, forms, and answers as HTML."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict
from urllib.parse import parse_qsl, quote, urlsplit

from fastapi import Depends, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from penstock.config.declare import NAME
from penstock.control.clock import Clock
from penstock.control.errors import Forbidden, NotFound, PenstockError, RetryableError, Unauthenticated, UserError
from penstock.wire.job_client import JobClient
from services.console.live.stream import Live
from services.console.sealed import Seal, Session
from services.console.views import words
from services.console.views.charts import SPANS, USUAL_SPAN
from services.console.views.forms import WHOLE, Errors, refused
from services.console.views.subjects import subject_path

_FOLDER = Path(__file__).parent
LARGEST_FORM_BYTES = 256 * 1024
_MOST_FIELDS = 100
_LOCAL = re.compile(r"^/(?![/\\])[^\x00-\x20\\]*$")
Form = Mapping[str, str]
Name = Annotated[str, PathParameter(pattern=NAME)]
"""The name of a job, a layer or a container in a path."""
NOT_OF_A_FIELD = (Unauthenticated, Forbidden, NotFound, RetryableError)
"""Refusals of a form that no field of it can mend: each has a page of its own."""


class SignInNeeded(Exception):
    """Nobody is signed in, or the token is good no more."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the routes work with; kept in `app.state.parts`. `connect` makes a client of the Job Service for a
    token, and for a browser with this address."""

    seal: Seal
    clock: Clock
    connect: Callable[[str, str | None], JobClient]
    live: Live
    is_secure: bool
    runbooks: Mapping[str, Any]
    runbook_sections: Sequence[Any]
    templates: Environment
    files: Set[str]
    session_seconds: int
    url: str

    @property
    def cookie(self) -> str:
        """The name of the cookie. With `__Host-` a browser takes it by TLS only, and from this host only."""
        return "__Host-penstock" if self.is_secure else "penstock"


def templates(addresses: Mapping[str, str]) -> Environment:
    """The templates, with the words of the pages. `addresses`: of the files that pages load."""
    found = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(words.FILTERS)
    found.globals["subject_path"] = subject_path
    found.globals["static"] = addresses
    return found


def parts_of(request: Request) -> Parts:
    """The parts of the application."""
    parts: Parts = request.app.state.parts
    return parts


async def _session(request: Request) -> Session:
    """Who is signed in. Raises SignInNeeded."""
    parts = parts_of(request)
    session = parts.seal.open(request.cookies.get(parts.cookie), parts.clock.now())
    if session is None:
        raise SignInNeeded
    request.state.session = session
    return session


SessionOf = Annotated[Session, Depends(_session)]


def _client(request: Request, session: SessionOf) -> Iterator[JobClient]:
    with parts_of(request).connect(session.token, request.client.host if request.client else None) as client:
        yield client


ClientOf = Annotated[JobClient, Depends(_client)]


async def read_form(request: Request) -> Form:
    """The fields of a form; of a field that is there twice, the last. Raises UserError for what is no small form."""
    require_own_origin(request)
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise UserError("this is no form of the console", field="content-type", rule="form")
    read = bytearray()
    async for chunk in request.stream():
        read += chunk
        if len(read) > LARGEST_FORM_BYTES:
            raise UserError(f"a form may have at most {LARGEST_FORM_BYTES} bytes", field="body", rule="most_bytes")
    try:
        pairs = parse_qsl(
            read.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS, strict_parsing=False
        )
    except ValueError as error:
        raise UserError("this is no form of the console", field="body", rule="form") from error
    return {name: value.replace("\r\n", "\n").replace("\x00", "") for name, value in pairs}


def require_own_origin(request: Request) -> None:
    """A form of another site is refused, whatever else it carries. Raises Forbidden."""
    origin, own = request.headers.get("origin"), parts_of(request).url
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise _foreign()
    host = request.headers.get("host", "")
    allowed = (own,) if own else (f"http://{host}", f"https://{host}")
    if origin is not None and origin not in allowed:
        raise _foreign()


def is_own_host(request: Request) -> bool:
    """Whether the request names the host of `PENSTOCK_CONSOLE_URL`; every host is right without that setting. Another
    one is a name of somebody else that leads here."""
    own = parts_of(request).url
    return not own or request.headers.get("host", "") == urlsplit(own).netloc


async def _form(request: Request, session: SessionOf) -> Form:
    form = await read_form(request)
    if not parts_of(request).seal.is_form_token(form.get("form_token", ""), session.nonce):
        raise Forbidden(
            "this form is not of your session: open the page again and repeat it", field="form_token", rule="own_form"
        )
    return form


FormOf = Annotated[Form, Depends(_form)]


def _foreign() -> Forbidden:
    return Forbidden("a form of another site may not change anything here", field="origin", rule="same_origin")


@contextmanager
def beside_fields(
    errors: Errors, fields: Mapping[str, str], default: str = WHOLE, *, kind: type[PenstockError] = UserError
) -> Iterator[None]:
    """Puts the refusal of what is done inside into `errors`, as `forms.refused` does, for the form to be shown again.

    A refusal that no field of a form can mend goes on: it has a page of its own.
    """
    try:
        yield
    except NOT_OF_A_FIELD:
        raise
    except kind as error:
        errors.update(refused(error, fields, default))


def page(request: Request, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """A page for who is signed in, or for nobody."""
    parts = parts_of(request)
    session: Session | None = getattr(request.state, "session", None)
    now = parts.clock.now()
    shown = {
        "session": session,
        "form_token": "" if session is None else parts.seal.form_token(session.nonce),
        "path": request.url.path,
        "query": dict(request.query_params),
        "now": now,
        "ago": lambda moment: words.ago(moment, now),
        "idempotency_key": secrets.token_hex(16),
        "done": _done(request, session),
        "follows": session is not None and request.method == "GET" and status == 200,
        "own_job": request.path_params.get("job"),
    }
    return HTMLResponse(parts.templates.get_template(template).render(shown | context), status_code=status)


class Times(TypedDict):
    """Options of a call for series."""

    since: datetime
    until: datetime
    step_seconds: int


def asked_span(request: Request) -> str:
    """The name of the span that the page's charts are asked for; of what is none, the usual one."""
    asked = request.query_params.get("span", "")
    return asked if asked in SPANS else USUAL_SPAN


def times_of(request: Request, span: str) -> Times:
    """The times of a span that ends now."""
    until = parts_of(request).clock.now()
    length, step_seconds = SPANS[span]
    return {"since": until - length, "until": until, "step_seconds": step_seconds}


def see(request: Request, path: str, done: str) -> Response:
    """Leads to a page after a form was done; `done` says what, to the session of the form only."""
    session: Session = request.state.session
    signed = parts_of(request).seal.form_token(f"{session.nonce} {done}")
    return RedirectResponse(f"{path}?done={quote(done)}&signed={signed}", status_code=303)


def _done(request: Request, session: Session | None) -> str:
    """What a form did, as this console said it to this session."""
    done, signed = (request.query_params.get(name, "") for name in ("done", "signed"))
    if session is None or not parts_of(request).seal.is_form_token(signed, f"{session.nonce} {done}"):
        return ""
    return done


def local_path(path: str) -> str:
    """The path if it leads to a page of the console, else the first page."""
    return path if _LOCAL.match(path) else "/"
