"""The calls of operators that every service answers."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from penstock.wire.app import at_end, create_app
from tests.support.control.serving import serving

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


def test_a_request_that_waits_is_answered_when_the_server_stops() -> None:
    """Without `at_end` it would be cut off after the grace, with a traceback in the log."""
    app = create_app("any", ready=dict)
    asked, has_ended = threading.Event(), asyncio.Event()
    at_end(app, has_ended.set)

    @app.get("/wait")
    async def wait() -> str:
        asked.set()
        await has_ended.wait()
        return "the end"

    with ThreadPoolExecutor() as pool:
        with serving(app) as url:
            answer = pool.submit(httpx.get, f"{url}/wait", timeout=30, trust_env=False)
            assert asked.wait(30)
        assert answer.result().json() == "the end"
