"""Prometheus and promtool of Debian's package `prometheus`, and a Prometheus that scrapes processes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from penstock.control.process import start_child, stop_group, wait_until
from penstock.local.ports import free_port
from tests.tidy.source import REPOSITORY

FOLDER = REPOSITORY / "deploy" / "prometheus"
RULES = FOLDER / "penstock.rules.yml"


def tool(name: str, of: str = "prometheus") -> str:
    """The path of a program, such as `promtool`; the Debian package `of` is installed where that is possible."""
    if shutil.which(name) is None:
        subprocess.run([REPOSITORY / "deploy/setup/apt.sh", of], check=True)
    found = shutil.which(name)
    assert found is not None, f"there is no {name}"
    return found


class Prometheus:
    """One that runs."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=f"{url}/api/v1", timeout=10.0, trust_env=False)

    def get(self, path: str, **asked: str) -> Any:
        """The `data` of an answer."""
        answer = self._http.get(path, params=asked).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def is_ready(self) -> bool:
        """Whether it answers queries; before that it says 503."""
        try:
            return self._http.get("/status/runtimeinfo").is_success
        except httpx.TransportError:
            return False

    def scraped(self) -> dict[str, str]:
        """By process, the error of its newest scrape; empty: none. Without those that were not scraped yet."""
        targets = self.get("/targets")["activeTargets"]
        return {each["labels"]["process"]: each["lastError"] for each in targets if each["health"] != "unknown"}

    def rules(self) -> list[Any]:
        """All rules with their state."""
        return [rule for group in self.get("/rules")["groups"] for rule in group["rules"]]

    def values(self, query: str) -> list[float]:
        """Of each series of an instant query."""
        return [float(each["value"][1]) for each in self.get("/query", query=query)["result"]]


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, str]) -> Iterator[Prometheus]:
    """Scrapes targets (`host:port` by process) each second, with the rules of `deploy/prometheus`."""
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(RULES)]
    static = [{"targets": [target], "labels": {"process": process}} for process, target in targets.items()]
    config["scrape_configs"][0]["static_configs"] = static
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command = [tool("prometheus"), *options, f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    process = start_child(command, cwd=folder, log_path=folder / "prometheus.log")
    try:
        found = Prometheus(f"http://127.0.0.1:{port}")
        wait_until(found.is_ready, 30, "Prometheus to answer")
        yield found
    finally:
        stop_group(process, 20.0)
