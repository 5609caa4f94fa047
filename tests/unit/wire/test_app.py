"""The calls of operators that every service answers."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx

from penstock.wire.app import create_app

PROBES = 4


def test_metrics_are_served_while_probes_wait_for_the_store() -> None:
    may_answer = threading.Event()

    def ready() -> dict[str, Any]:
        assert may_answer.wait(30)
        return {}

    async def ask() -> list[int]:
        app = create_app("any", ready=ready)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://any") as client:
            probes = [asyncio.create_task(client.get("/readyz")) for _ in range(PROBES)]
            scraped = await asyncio.wait_for(client.get("/metrics"), 10)
            assert not any(probe.done() for probe in probes)
            may_answer.set()
            return [scraped.status_code, *(answer.status_code for answer in await asyncio.gather(*probes))]

    assert asyncio.run(ask()) == [200] * (1 + PROBES)
