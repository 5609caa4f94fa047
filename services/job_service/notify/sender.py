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
        try:
            response = self._http.post(request.url, headers=dict(request.headers), content=request.body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"no answer: {type(error).__name__}") from error
        if not response.is_success:
            raise Unavailable(f"HTTP {response.status_code}: {response.text[:_SHOWN_CHARACTERS]}".rstrip(": "))
