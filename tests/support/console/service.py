"""The console on a real port, and somebody who is signed in to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from penstock.control.clock import SystemClock
from services.console.api import create_console
from services.console.settings import ConsoleSettings
from tests.support.control.serving import serving

_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]+)"')


@contextmanager
def console(job_service_url: str, **settings: Any) -> Iterator[str]:
    """Serves on a free port until the end of the block; its address."""
    with serving(create_console(ConsoleSettings(job_service_url=job_service_url, **settings), SystemClock())) as url:
        yield url


class User:
    """A person with a browser that runs no script. Use as a context manager."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=30, trust_env=False, verify=False)  # plain HTTP

    def __enter__(self) -> User:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def sign_in(self, token: str, following: str = "/") -> httpx.Response:
        """Sends the form of the sign-in page."""
        page = self.http.get("/sign-in", params={"next": following})
        return self.http.post(
            "/sign-in", data={"token": token, "next": following, "form_token": token_of(page.text)}, headers=self._own()
        )

    def get(self, path: str, status: int = 200) -> str:
        """A page."""
        answer = self.http.get(path)
        assert answer.status_code == status, (path, answer.status_code, answer.text[-800:])
        return answer.text

    def post(self, path: str, form: dict[str, str], of: str = "/") -> httpx.Response:
        """Sends a form of the page `of`."""
        return self.http.post(path, data={"form_token": token_of(self.get(of)), **form}, headers=self._own())

    def _own(self) -> dict[str, str]:
        return {"Origin": self.url, "Sec-Fetch-Site": "same-origin"}


def token_of(html: str) -> str:
    """The form token of a page."""
    found = _TOKEN.search(html)
    assert found is not None, html[:500]
    return found[1]


def hidden_of(html: str) -> dict[str, str]:
    """The hidden fields of the last form of a page."""
    form = html[html.rindex("<form") :] if "Confirm" not in html else html[html.index('/confirm"') :]
    names = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)
    return {name: value.replace("&#34;", '"').replace("&#39;", "'").replace("&amp;", "&") for name, value in names}
