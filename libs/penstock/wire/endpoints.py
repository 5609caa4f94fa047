"""One service behind several addresses: the one that answered last is asked first."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from penstock.control.errors import TerminalError, Unavailable
from penstock.wire.http import Identity, internal_client, problem_of

Answer = TypeVar("Answer", bound=BaseModel)


class Endpoints:
    """Asks `urls` (comma separated) in turn until one answers. Safe from any thread.

    Only answers below 400 count. Everything else, also a refusal, is Unavailable: a caller that can go on alone must
    not act on the answer of a broken service.
    `limit_seconds`, asked at each call: the time for all addresses of the call together, none without it. The first
    gets half of it at most, and so on. `now`: seconds of a monotonic clock.
    """

    def __init__(
        self,
        service: str,
        urls: str,
        *,
        timeout_seconds: float,
        identity: Identity | None = None,
        limit_seconds: Callable[[], float] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._urls = tuple(url.strip().rstrip("/") for url in urls.split(",") if url.strip())
        if not self._urls:
            raise ValueError(f"no address for {service}")
        self._preferred = self._urls[0]
        self._timeout_seconds = timeout_seconds
        self._limit_seconds = limit_seconds
        self._now = now
        self._client = internal_client(identity, timeout=timeout_seconds)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The first good answer. `options` as for `httpx.Client.request`.

        A refusal that names a `leader` makes that address the next one asked. Raises Unavailable.
        """
        problems: list[str] = []
        until = None if self._limit_seconds is None else self._now() + self._limit_seconds()
        waiting = self._in_order()
        asked: set[str] = set()
        while waiting:
            url = waiting.pop(0)
            if url in asked:
                continue
            asked.add(url)
            if until is not None:
                left = until - self._now()
                if left <= 0.0:
                    problems.append(f"{url}: no time is left for it")
                    continue
                options = {**options, "timeout": self._timeout(left, is_last=not set(waiting) - asked)}
            response = self._ask(url, method, path, options, problems)
            if response is None:
                continue
            if response.status_code < 400:
                self._preferred = url
                return response
            problems.append(f"{url}: {response.status_code} {problem_of(response).get('detail', '')}")
            waiting = [*_leader(response), *waiting]
        raise Unavailable(f"{self._service} does not answer: {'; '.join(problems)}")

    def close(self) -> None:
        """Closes connections."""
        self._client.close()

    def _in_order(self) -> list[str]:
        return [self._preferred, *(url for url in self._urls if url != self._preferred)]

    def _timeout(self, left: float, *, is_last: bool) -> httpx.Timeout:
        """Of one address, when so many seconds are left for all: for the connection, and then for the answer."""
        share = left if is_last else left / 2
        return httpx.Timeout(min(self._timeout_seconds, share * 2 / 3), connect=min(self._timeout_seconds, share / 3))

    def _ask(
        self, url: str, method: str, path: str, options: dict[str, Any], problems: list[str]
    ) -> httpx.Response | None:
        try:
            return self._client.request(method, f"{url}{path}", **options)
        except (httpx.HTTPError, httpx.InvalidURL, TerminalError, OSError) as error:
            problems.append(f"{url}: {error!r}")
            return None


def _leader(response: httpx.Response) -> list[str]:
    """The leader's address in a NotLeader problem, where it is known."""
    leader = problem_of(response).get("leader")
    return [leader.rstrip("/")] if isinstance(leader, str) and leader else []


def read_answer(kind: type[Answer], response: httpx.Response, service: str) -> Answer:
    """The body of an answer. Raises Unavailable when it cannot be read."""
    try:
        return kind.model_validate_json(response.content)
    except ValidationError as error:
        raise Unavailable(f"the answer of {service} cannot be read: {error}") from error
