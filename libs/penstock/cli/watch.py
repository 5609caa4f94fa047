"""`penstock watch`: each stage of a job's newest revision, from the write to the running tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from penstock.cli.arguments import Job, Timeout
from penstock.cli.connection import client
from penstock.cli.output import cell, changes, moment, say
from penstock.cli.parse import duration_seconds
from penstock.cli.patience import await_cluster
from penstock.cli.waiting import POLL_SECONDS, Reached, reached
from penstock.control.errors import Conflict
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import HistoryEntry, JobView
from penstock.wire.overview import SyncView, TaskView
from penstock.wire.stages import Progress, plan_steps, stages, written_text


def watch(
    job: Job,
    timeout: Timeout = "10m",
    revision: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="watch until this revision runs; default: the newest; it "
            "goes over to a newer one that is written meanwhile",
        ),
    ] = None,
) -> None:
    """Watch a change of a job until all its tasks run it: each stage of the revision, with the time since the command
    began.

    Exit codes: 0 every task runs it and has finished a batch or has nothing to read, or the job is stopped; 1 the job
    cannot run it; 3 still not after --timeout, and Penstock continues.
    """
    seconds, connection = duration_seconds(timeout, field="timeout"), client()
    _Watch(connection, job, revision).until_converged(seconds)


class _Watch:
    """What was said of which revision; each line is said once."""

    def __init__(self, connection: JobClient, job: str, asked: int | None) -> None:
        self._connection = connection
        self._job = job
        self._asked = asked
        self._began = time.monotonic()
        self._revision = 0
        self._step = ""
        self._said: dict[str, None] = {}

    def until_converged(self, seconds: float) -> None:
        """Raises Conflict when the job cannot run the revision, TimeoutError when the time is over."""
        try:
            found = await_cluster(
                self._connection, self._ended, seconds, self._job, poll_s=POLL_SECONDS, step=lambda: self._step
            )
        except TimeoutError as error:
            raise TimeoutError(
                f"not done after {seconds:g} s, Penstock continues: {self._step}; `penstock sync "
                f"{self._job}` and `penstock status` show what it waits for"
            ) from error
        if found is not None and found.failed:
            raise Conflict(found.line, field="job", rule="runs")

    def _ended(self) -> Reached | None:
        job = self._connection.get_job(self._job)
        revision = self._asked or job.revision
        if revision != self._revision:
            self._revision = revision
            self._say(written(revision, self._entry(revision)))
        sync, tasks = self._connection.sync(self._job), self._connection.tasks(self._job).tasks
        for line in lines(job, sync, tasks, revision):
            self._say(line)
        now = reached(job, sync, tasks, revision)
        if now.before:
            self._say(now.before)
        if not now.failed:
            self._step = now.line
            self._say(now.line)
        return now if now.done or now.failed else None

    def _entry(self, revision: int) -> HistoryEntry | None:
        entries = self._connection.history(self._job).entries
        return next((entry for entry in entries if entry.revision == revision), None)

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said[line] = None
            say(f"+{time.monotonic() - self._began:6.1f} s  {line}")


def written(revision: int, entry: HistoryEntry | None) -> str:
    """The first stage: who wrote what, and when."""
    if entry is None:
        return f"written: revision {revision}"
    what = "; ".join(changes(entry.old, entry.new)) or entry.action
    why = f": {entry.reason}" if entry.reason else ""
    who = written_text(revision, entry.layer, entry.author)
    return f"written: {who} at {moment(entry.at)}: {cell(what)}{why}"


def lines(job: JobView, sync: SyncView, tasks: Sequence[TaskView], revision: int) -> Iterator[str]:
    """The stages of a revision after the first that are done, or of which something is, in their order. Pure."""
    _, planned, committed, run, _ = stages(job, sync, tasks, revision)
    steps = plan_steps(sync) if (sync.sync_revision or 0) >= revision else []
    if steps and planned.progress is Progress.DONE:
        yield f"{planned.line if planned.text else 'planned'}: {', '.join(step.name for step in steps)}"
        now = next((number for number, step in enumerate(steps, 1) if step.progress is Progress.NOW), None)
        if now is not None:
            yield f"step {now} of {len(steps)}: {steps[now - 1].name}"
    if committed.progress is Progress.DONE:
        yield committed.line
        yield run.line
