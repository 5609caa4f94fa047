"""What the Task Managers export while faults go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from prometheus_client.parser import text_string_to_metric_families

from penstock.wire.http import certificates
from tests.support.chaos.stack import ChaosStack

_POLL_S = 0.5
DOUBLE_RUN = "task_double_run_seconds"


@contextmanager
def double_runs(stack: ChaosStack) -> Iterator[dict[str, float]]:
    """The largest `task_double_run_seconds` seen of each container. One that does not answer is asked again."""
    seen: dict[str, float] = {}
    ending = threading.Event()

    def look() -> None:
        with httpx.Client(timeout=2.0, verify=certificates()) as client:
            while not ending.wait(_POLL_S):
                for name in stack.containers:
                    for seconds in _exported(client, stack.plan.url(name)):
                        seen[name] = max(seen.get(name, 0.0), seconds)

    thread = threading.Thread(target=look, name="double-runs")
    thread.start()
    try:
        yield seen
    finally:
        ending.set()
        thread.join()


def _exported(client: httpx.Client, url: str) -> list[float]:
    try:
        text = client.get(f"{url}/metrics").text
    except httpx.HTTPError:
        return []
    found = text_string_to_metric_families(text)
    return [sample.value for family in found if family.name == DOUBLE_RUN for sample in family.samples]
