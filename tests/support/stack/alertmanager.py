"""An Alertmanager of Debian's package `prometheus-alertmanager`, which tells nobody of what it gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from penstock.control.process import start_child, stop_group, wait_until
from penstock.local.ports import free_port
from tests.support.stack.prometheus import tool

PACKAGE = "prometheus-alertmanager"
_NOBODY = {"route": {"receiver": "nobody"}, "receivers": [{"name": "nobody"}]}


class Alertmanager:
    """One that runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=f"{url}/api/v2", timeout=10.0, trust_env=False)

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            return self._http.get("/status").is_success
        except httpx.TransportError:
            return False

    def alerts(self) -> list[dict[str, Any]]:
        """Those that have not ended, by subject."""
        answer = self._http.get("/alerts")
        answer.raise_for_status()
        return sorted(answer.json(), key=lambda alert: alert["labels"]["subject"])


@contextmanager
def alertmanager(folder: Path) -> Iterator[Alertmanager]:
    """Alone: it is no member of a group, and keeps its data in the folder."""
    config = folder / "alertmanager.yml"
    config.write_text(yaml.safe_dump(_NOBODY))
    port = free_port()
    options = [f"--config.file={config}", f"--storage.path={folder}/alerts", "--cluster.listen-address="]
    command = [tool("prometheus-alertmanager", PACKAGE), *options, f"--web.listen-address=127.0.0.1:{port}"]
    process = start_child([*command, "--log.level=warn"], cwd=folder, log_path=folder / "alertmanager.log")
    try:
        found = Alertmanager(f"http://127.0.0.1:{port}")
        wait_until(found.is_ready, 30, "the Alertmanager to answer")
        yield found
    finally:
        stop_group(process, 20.0)
