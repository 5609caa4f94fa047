"""What the clients of the Job Service share: typed reads and writes over one connection pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeVar

import httpx

from penstock.wire.http import HttpClient
from penstock.wire.jobs import View

ViewType = TypeVar("ViewType", bound=View)


class Calls:
    """Calls of one address with one token. Use as a context manager, or call `close`."""

    def __init__(self, url: str, token: str | None = None, *, timeout_seconds: float = 10.0) -> None:
        self._http = HttpClient(url, token=token, timeout_seconds=timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def _read(self, kind: type[ViewType], path: str, /, **query: Any) -> ViewType:
        return _view(kind, self._http.read(path, **query))

    def _write(
        self, method: str, path: str, kind: type[ViewType], body: Mapping[str, Any] | None = None, **options: Any
    ) -> ViewType:
        if body is not None:
            options["json"] = body
        return _view(kind, self._http.send(method, path, **options))


def write_headers(if_match: int | None, idempotency_key: str | None) -> dict[str, str]:
    """The headers of a write."""
    headers = {} if if_match is None else {"If-Match": f'"{if_match}"'}
    return headers if idempotency_key is None else headers | {"Idempotency-Key": idempotency_key}


def _view(kind: type[ViewType], response: httpx.Response) -> ViewType:
    return kind.model_validate_json(response.content)
