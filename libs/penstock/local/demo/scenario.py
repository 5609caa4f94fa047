"""What is done to the demo's jobs while flights stream through them: an override, an upgrade, two
rescales, and kills."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import orjson

from penstock.local.demo.feed import ENRICHED, FLIGHTS
from penstock.local.demo.view import View
from penstock.local.processes import children_with
from penstock.local.services import HOST_MODULE, task_manager_name
from penstock.local.stack import LocalStack

ENRICH, HOURLY, DELAYS = "enrich", "hourly", "delays"
# In the order of the chain: a job comes after the one that writes its input.
INPUTS = {ENRICH: FLIGHTS, HOURLY: FLIGHTS, DELAYS: ENRICHED}
JOBS = tuple(INPUTS)
OVERRIDE_SECONDS = 20


@dataclass(frozen=True)
class Step:
    """A step that is due once this share of the flights is in Kafka and, if needed, `hourly` runs."""

    share: float
    act: Callable[[], None]
    needs_hourly: bool = False


class Scenario:
    """The demo's steps, in order."""

    def __init__(self, stack: LocalStack, view: View, definitions: Path) -> None:
        self._stack = stack
        self._client = stack.client()
        self._view = view
        self._definitions = definitions

    def create_jobs(self) -> None:
        """The three jobs, by REST, as a provisioning tool would."""
        for job in JOBS:
            written = self._client.put_job(job, self._definition(job), reason="the demo")
            self._view.event(f"PUT /v1/jobs/{job}: revision {written.revision}", "change")

    def steps(self) -> tuple[Step, ...]:
        """What happens, by share of flights sent."""
        return (
            Step(0.10, self.override),
            Step(0.15, lambda: self.rescale(6)),
            Step(0.35, lambda: self.kill_host(task_manager_name(1)), needs_hourly=True),
            Step(0.45, self.upgrade),
            Step(0.55, lambda: self.kill(task_manager_name(2))),
            Step(0.65, lambda: self.rescale(3), needs_hourly=True),
            Step(0.75, lambda: self.kill("state_syncer")),
            Step(0.80, lambda: self.kill("shard_manager")),
        )

    def is_due(self, step: Step, share: float) -> bool:
        return share >= step.share and (not step.needs_hourly or self._client.get_job(HOURLY).converged)

    def override(self) -> None:
        """An on-call engineer makes `enrich` faster for a while; it ends by itself."""
        version = self._client.get_layer(ENRICH, "oncall").version
        reason = "demo: catch up before the evening peak"
        change = {"trigger_interval_seconds": 1.0}
        written = self._client.patch_layer(
            ENRICH, "oncall", change, if_match=version, reason=reason, expires_in_seconds=OVERRIDE_SECONDS
        )
        text = f"override of {ENRICH}: {change}, revision {written.revision}, ends in {OVERRIDE_SECONDS} s"
        self._view.event(text, "change")

    def upgrade(self) -> None:
        """A new release of the query of `hourly`: same answer, other text, so its tasks restart with their state."""
        version = self._client.get_layer(HOURLY, "provisioner").version
        text = str(self._definition(HOURLY)["query"]["sql"])
        release = text.replace("FROM flights GROUP BY", "FROM flights WHERE dest IS NOT NULL GROUP BY")
        written = self._client.patch_layer(
            HOURLY, "provisioner", {"query": {"sql": release}}, if_match=version, reason="release 2"
        )
        self._view.event(f"upgrade of {HOURLY} to release 2, revision {written.revision}", "change")

    def rescale(self, task_count: int) -> None:
        """`hourly`, with its windows in the state of its tasks, gets another number of tasks, and stays so."""
        written = self._client.rescale(HOURLY, task_count, reason="demo: another number of tasks")
        self._view.event(f"rescale of {HOURLY} to {task_count} tasks, revision {written.revision}", "change")

    def kill(self, name: str) -> None:
        """`kill -9` of a process; the supervisor starts it again."""
        pid = self._stack.supervisor.pid(name)
        os.kill(pid, signal.SIGKILL)
        self._view.event(f"kill -9 {name} (pid {pid})", "kill")

    def kill_host(self, manager: str) -> None:
        """`kill -9` of the busiest Spark host of a Task Manager."""
        hosts = children_with(self._stack.supervisor.pid(manager), [HOST_MODULE])
        if not hosts:
            self._view.event(f"{manager} runs no Spark host now, so none is killed")
            return
        host = max(hosts, key=lambda process: sum(process.cpu_times()[:4]))
        host.kill()
        self._view.event(f"kill -9 of a Spark host of {manager} (pid {host.pid})", "kill")

    def _definition(self, job: str) -> dict[str, Any]:
        text = (self._definitions / f"{job}.json").read_text()
        paths = {"planes_path": str(planes_path(self._stack)), "hourly_path": str(hourly_path(self._stack))}
        config: dict[str, Any] = orjson.loads(Template(text).substitute(paths))
        return config


def planes_path(stack: LocalStack) -> Path:
    return stack.data_dir / "demo" / "planes"


def hourly_path(stack: LocalStack) -> Path:
    return stack.data_dir / "demo" / "hourly"
