"""Signing in with a token, and out."""

from __future__ import annotations

import secrets

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from penstock.control.errors import UserError
from penstock.wire.app import OwnThreads
from services.console.requests import FormOf, SessionOf, local_path, page, parts_of, read_form
from services.console.sealed import Session

router = APIRouter(include_in_schema=False)
_LONGEST_TOKEN = 1000
_MOST_SECONDS = 10.0


@router.get("/sign-in")
def sign_in_page(request: Request) -> Response:
    """The form for a token. Its cookie holds what the form's token is made for."""
    return _form_page(request, local_path(request.query_params.get("next", "/")))


_ASKED = OwnThreads(4)
"""A Job Service that hangs keeps only these waiting, and no other page."""


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Asks the Job Service who the token belongs to, and seals it into the cookie of a session."""
    form = await read_form(request)
    parts, following = parts_of(request), local_path(form.get("next", "/"))
    nonce, token = request.cookies.get(_form_cookie(request), ""), form.get("token", "").strip()
    if not nonce or not parts.seal.is_form_token(form.get("form_token", ""), nonce):
        return _form_page(request, following, error="this page was open for too long, or cookies are off: try again")
    if not token or len(token) > _LONGEST_TOKEN or not (token.isascii() and token.isprintable()):
        return _form_page(request, following, error="paste a token")
    return await _ASKED.run(_signed_in, request, token, following)


def _signed_in(request: Request, token: str, following: str) -> Response:
    parts = parts_of(request)
    try:
        with parts.connect(token, None) as client:
            caller = client.caller_at_once(_MOST_SECONDS)
    except UserError as error:
        return _form_page(request, following, error=error.detail)
    nonce = secrets.token_hex(16)
    session = Session(nonce=nonce, token=token, name=caller.name, role=caller.role, layers=tuple(caller.layers))
    response = RedirectResponse(following, status_code=303)
    sealed = parts.seal.close(session, parts.clock.now())
    _set(request, response, parts.cookie, sealed, parts.session_seconds)
    return response


@router.post("/sign-out")
async def sign_out(request: Request, session: SessionOf, _: FormOf) -> Response:
    """Takes the cookie back, and ends what open pages are told. The token itself stays good."""
    parts_of(request).live.watches.end(session.nonce)
    response = RedirectResponse("/sign-in", status_code=303)
    forget(request, response)
    return response


def forget(request: Request, response: Response) -> None:
    """Takes the session's cookie back, of a browser that sent it: a form of another site signs nobody out."""
    parts = parts_of(request)
    if parts.cookie in request.cookies:
        response.delete_cookie(parts.cookie, path="/", secure=parts.is_secure, httponly=True, samesite="strict")


def _form_page(request: Request, following: str, error: str = "") -> Response:
    parts = parts_of(request)
    nonce = secrets.token_hex(16)
    response = page(
        request,
        "sign_in.html",
        status=422 if error else 200,
        form_token=parts.seal.form_token(nonce),
        following=following,
        error=error,
    )
    _set(request, response, _form_cookie(request), nonce, 3600)
    return response


def _form_cookie(request: Request) -> str:
    return f"{parts_of(request).cookie}-form"


def _set(request: Request, response: Response, name: str, value: str, seconds: int) -> None:
    secure = parts_of(request).is_secure
    response.set_cookie(name, value, max_age=seconds, path="/", secure=secure, httponly=True, samesite="strict")
