"""What the clients of the Job Service share: reads, pages and writes, typed; and the options of their calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol, Self, TypedDict, TypeVar

from penstock.wire.http import HttpClient, path_of
from penstock.wire.job_views import View

ViewType = TypeVar("ViewType", bound=View)


class _Page(Protocol):
    """A page of a list; `next` is the cursor of the next one."""

    @property
    def next(self) -> str | None: ...
    @classmethod
    def model_validate_json(cls, json_data: bytes) -> Self: ...


PageType = TypeVar("PageType", bound=_Page)


class Noted(TypedDict, total=False):
    """Options of most writes. `reason`: kept in the history. `idempotency_key`: makes the write safe to send again."""

    reason: str
    idempotency_key: str | None


class Paging(TypedDict, total=False):
    """Which page of a list: `cursor` is `next` of the page before, `limit` the most items of it."""

    cursor: str | None
    limit: int


def path(*parts: str) -> str:
    """The path of a call below `/v1`."""
    return path_of("v1", *parts)


def job_path(job: str, *parts: str) -> str:
    """The path of a call about a job."""
    return path("jobs", job, *parts)


def span(since: datetime | None, until: datetime | None) -> dict[str, str | None]:
    """The times of a call for series, as its query names them."""
    times = {"from": since, "to": until}
    return {name: None if moment is None else moment.isoformat() for name, moment in times.items()}


class ServiceClient(HttpClient):
    """Reads and writes of the Job Service."""

    def _read(self, kind: type[ViewType], path: str, /, **query: Any) -> ViewType:
        return kind.model_validate_json(self.read(path, **query).content)

    def _pages(self, kind: type[PageType], path: str, /, **query: Any) -> Iterator[PageType]:
        cursor: str | None = None
        while True:
            page = kind.model_validate_json(self.read(path, cursor=cursor, **query).content)
            yield page
            cursor = page.next
            if cursor is None:
                return

    def _write(
        self,
        method: str,
        path: str,
        kind: type[ViewType],
        content: Mapping[str, Any],
        *,
        if_match: int | None = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> ViewType:
        """`content` becomes the body, or the query of a DELETE; the options in it go where the API wants them.
        `options` are httpx's."""
        sent = dict(content)
        key = sent.pop("idempotency_key", None)
        if sent.get("expires_in_seconds") == "default":
            del sent["expires_in_seconds"]
        if sent.get("whole_layer") is False:
            del sent["whole_layer"]
        named = {"If-Match": None if if_match is None else f'"{if_match}"', "Idempotency-Key": key, **(headers or {})}
        given = {name: value for name, value in named.items() if value is not None}
        where = "params" if method == "DELETE" else "json"
        return kind.model_validate_json(self.send(method, path, headers=given, **{where: sent}, **options).content)
