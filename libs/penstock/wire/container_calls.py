"""The calls of the Job Service about containers; part of `penstock.wire.job_client.JobClient`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from penstock.wire.calls import Calls, write_headers
from penstock.wire.containers import DEFAULT_DRAIN_SECONDS, ContainerPage, ContainerView


class ContainerCalls(Calls):
    """Each call raises NotFound for an unknown container. Writes may be repeated."""

    def containers(self, *, cursor: str | None = None, limit: int = 1000) -> ContainerPage:
        """A page of containers by name."""
        return self._read(ContainerPage, "/v1/containers", cursor=cursor, limit=limit)

    def all_containers(self) -> Iterator[ContainerView]:
        """All containers by name, read page by page."""
        cursor: str | None = None
        while True:
            page = self.containers(cursor=cursor)
            yield from page.containers
            cursor = page.next
            if cursor is None:
                return

    def container(self, name: str) -> ContainerView:
        """One container."""
        return self._read(ContainerView, _path(name))

    def cordon(self, name: str, *, reason: str = "", idempotency_key: str | None = None) -> ContainerView:
        """The container keeps its shards and gets no new ones. Ends a drain."""
        return self._set(name, "cordon", {"reason": reason}, idempotency_key)

    def drain(
        self,
        name: str,
        *,
        reason: str = "",
        limit_seconds: int | None = DEFAULT_DRAIN_SECONDS,
        idempotency_key: str | None = None,
    ) -> ContainerView:
        """Moves the container's shards to others. What remains after `limit_seconds` leaves at once; None: never."""
        return self._set(name, "drain", {"reason": reason, "limit_seconds": limit_seconds}, idempotency_key)

    def uncordon(self, name: str, *, reason: str = "", idempotency_key: str | None = None) -> ContainerView:
        """Lets a container take shards again."""
        return self._set(name, "uncordon", {"reason": reason}, idempotency_key)

    def _set(self, name: str, verb: str, body: Mapping[str, Any], idempotency_key: str | None) -> ContainerView:
        headers = write_headers(None, idempotency_key)
        return self._write("POST", f"{_path(name)}/{verb}", ContainerView, body, headers=headers)


def _path(name: str) -> str:
    return f"/v1/containers/{quote(name, safe='')}"
