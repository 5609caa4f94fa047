"""Sends requests to webhooks."""

from __future__ import annotations

import httpx

from penstock.control.errors import Unavailable
from services.job_service.notify.messages import Request

TIMEOUT_SECONDS = 5.0
_SHOWN_CHARACTERS = 200


class Sender:
    """Sends one request, once. Redirects are not followed: a signed message goes where the settings say."""

    def __init__(self, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._http = httpx.Client(timeout=timeout_seconds, follow_redirects=False)

    def send(self, request: Request) -> None:
        """Raises Unavailable unless it was taken (2xx). The error has no URL: that may be a secret."""
        headers = dict(request.headers)
        try:
            with self._http.stream("POST", request.url, headers=headers, content=request.body) as response:
                if not response.is_success:
                    raise Unavailable(f"HTTP {response.status_code}: {_begin_of(response)}".rstrip(": "))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"no answer: {type(error).__name__}") from error


def _begin_of(response: httpx.Response) -> str:
    """The begin of an answer, of what comes at once: a body may never end."""
    try:
        return next(response.iter_raw(), b"")[:_SHOWN_CHARACTERS].decode(errors="replace")
    except httpx.HTTPError:
        return ""
