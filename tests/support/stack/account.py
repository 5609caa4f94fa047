"""What a stack has to say for itself when a test of it fails: its jobs, their tasks, and the ends of its logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from penstock.control.errors import PenstockError
from penstock.local.stack import LocalStack

_LINES = 25
_LONGEST = 600


def account(stack: LocalStack) -> str:
    """Some lines for each job, and for each process the last that it logged with a level above `info`."""
    return "\n".join([*_jobs(stack), *_logs(stack.data_dir / "logs")])


def _jobs(stack: LocalStack) -> Iterator[str]:
    try:
        with stack.client() as client:
            for job in client.list_jobs():
                yield f"{job.job}: {job.health}, {job.reason}, converged {job.converged}"
                yield f"  sync: {client.sync(job.job).model_dump_json(exclude_none=True)[:_LONGEST]}"
                yield from (f"  task: {task.model_dump_json()[:_LONGEST]}" for task in client.tasks(job.job).tasks)
    except PenstockError as error:
        yield f"jobs: {error}"


def _logs(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.log")):
        told = [line for line in path.read_text(errors="replace").splitlines() if _is_notable(line)]
        yield f"{path.name}, notable lines: {len(told)}"
        yield from (f"  {line[:_LONGEST]}" for line in told[-_LINES:])


def _is_notable(line: str) -> bool:
    """Whether a line is no event of Penstock's (a traceback), or one above `info`."""
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        return bool(line.strip())
    return not isinstance(event, dict) or event.get("level") not in ("debug", "info")
