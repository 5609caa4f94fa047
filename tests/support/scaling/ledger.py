"""What the Auto Scaler decided about a job, as a story reads it, and what somebody on call is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from penstock.control.process import wait_until
from penstock.local.stack import LocalStack
from penstock.wire.overview import DecisionView

_WRITTEN = "written"
_POLL_S = 2.0


class Ledger:
    """The decisions about a job."""

    def __init__(self, stack: LocalStack, job: str) -> None:
        self._stack = stack
        self.job = job

    def all(self) -> list[DecisionView]:
        """Oldest first."""
        with self._stack.client() as client:
            return client.decisions(self.job, limit=20).decisions[::-1]

    def actions(self) -> list[DecisionView]:
        """Those that changed something, oldest first."""
        return [each for each in self.all() if each.outcome == _WRITTEN]

    def sizes(self) -> list[int]:
        """The numbers of tasks that were written, oldest first."""
        return [each.change["task_count"] for each in self.actions() if each.change and "task_count" in each.change]

    def wait(self, what: str, holds: Callable[[DecisionView], bool], seconds: float) -> DecisionView:
        """The newest decision for which it holds, as soon as there is one. Raises TimeoutError."""

        def found() -> DecisionView | None:
            return next((each for each in reversed(self.all()) if holds(each)), None)

        try:
            return wait_until(found, seconds, f"a decision about {self.job}: {what}", poll_s=_POLL_S)
        except TimeoutError:
            self.shown("decisions", self.job)
            raise

    def wait_size(self, tasks: int, seconds: float) -> DecisionView:
        """Waits until the newest action is to run so many tasks."""

        def newest() -> DecisionView | None:
            actions = self.actions()
            is_asked = bool(actions) and (actions[-1].change or {}).get("task_count") == tasks
            return actions[-1] if is_asked else None

        return wait_until(newest, seconds, f"{self.job} to be given {tasks} tasks", poll_s=_POLL_S)

    def wait_well(self, seconds: float) -> None:
        """Waits until the newest decision found no symptom."""

        def well() -> bool:
            decided = self.all()
            return bool(decided) and decided[-1].symptom == "none"

        wait_until(well, seconds, f"{self.job} to be well", poll_s=_POLL_S)

    def alerts(self) -> list[str]:
        """The kinds of the job's open alerts."""
        with self._stack.client() as client:
            return [each.kind for each in client.alerts(subject=self.job).alerts]

    def shown(self, *words: str) -> str:
        """What `penstock` prints, which is printed here, too. In a process of its own: stories run side by side."""
        environment = {**os.environ, "PENSTOCK_DATA_DIR": str(self._stack.data_dir), "COLUMNS": "160"}
        penstock = Path(sys.executable).parent / "penstock"
        done = subprocess.run([penstock, *words], capture_output=True, text=True, env=environment, check=True)
        print(f"$ penstock {' '.join(words)}\n{done.stdout}")
        return done.stdout

    def why(self) -> str:
        """The newest decision in sentences."""
        return self.shown("decisions", self.job, "--why")
