"""Commands about whole jobs: definition, state, tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Annotated

import typer

from penstock.cli.arguments import AllowRepeats, AsJson, Config, Job, Reason, Timeout, Verify, WaitUntilDone
from penstock.cli.connection import client, definition, say_written
from penstock.cli.layers import say_plan
from penstock.cli.output import say, show_json, table
from penstock.cli.parse import duration_seconds
from penstock.cli.spark_answer import asked_until_answered, end_unless_done
from penstock.cli.task_rows import FIGURES, by_error, figures_of, state_of
from penstock.cli.waiting import say_and_wait, wait_until_gone
from penstock.control.errors import Conflict
from penstock.control.texts import first_few
from penstock.model.states import JobState
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import JobView, PlanView
from penstock.wire.overview import TaskView


def show(job: Job) -> None:
    """Show one job as JSON: merged configuration, layer versions, state, health with the whole reason."""
    show_json(client().get_job(job))


def apply(
    job: Job,
    config: Config,
    reason: Reason = "",
    verify: Verify = True,
    allow_repeats: AllowRepeats = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="show the plan and what Spark finds; write nothing")
    ] = False,
    wait: WaitUntilDone = False,
    timeout: Timeout = "5m",
) -> None:
    """Create a job, or replace its base layer.

    In a file, `${data_dir}` is replaced by the data folder of `penstock up`, and `${job}` by the job's name.

    Exit codes: 0 done; 1 refused, or the job cannot run; 2 wrong options; 3 still not done after --timeout; 5 of
    --dry-run: no host has checked the job in that time.
    """
    content, seconds, connection = definition(job, config), duration_seconds(timeout, field="timeout"), client()
    if dry_run:
        asked = partial(connection.plan, layer="base", action="put", verify=verify, allow_repeats=allow_repeats)
        return _try(lambda: asked(job, content), seconds)
    written = connection.put_job(job, content, reason=reason, verify=verify, allow_repeats=allow_repeats)
    return say_and_wait(connection, written, seconds if wait else None)


def _try(ask: Callable[[], PlanView], seconds: float) -> None:
    """Says what the write would do. Ends with exit code 1 when it would be refused, 5 when nobody has checked it."""
    answer = asked_until_answered(ask, seconds)
    say_plan(answer)
    say("dry run: nothing was written")
    end_unless_done(answer)


def delete(
    job: Job,
    reason: Reason = "",
    yes: Annotated[bool, typer.Option("--yes", help="delete it though other jobs read what it writes")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="wait until the job is gone")] = False,
    timeout: Timeout = "5m",
) -> None:
    """Stop the tasks of a job, then delete the job. Its history is kept."""
    connection, seconds = client(), duration_seconds(timeout, field="timeout")
    if not yes:
        _require_unread(connection, job)
    say_written(connection.delete_job(job, reason=reason))
    if wait:
        wait_until_gone(connection, job, seconds)


def _require_unread(connection: JobClient, job: str) -> None:
    """Raises Conflict when other jobs read what a job writes. Those that are being deleted do not count."""
    around = connection.lineage(job, depth=1).jobs
    readers = [each.job for each in around if each.distance > 0 and each.state is not JobState.DELETING]
    if readers:
        raise Conflict(
            f"{first_few(readers)} read{'s' if len(readers) == 1 else ''} what {job} writes, and would get no new row "
            f"of it: add --yes to delete it all the same; `penstock lineage {job}` shows them",
            field="yes",
            rule="confirmed",
        )


def restart(job: Job, reason: Reason = "", wait: WaitUntilDone = False, timeout: Timeout = "5m") -> None:
    """Restart the tasks of a job. Their state is kept."""
    connection, seconds = client(), duration_seconds(timeout, field="timeout")
    say_and_wait(connection, connection.restart(job, reason=reason), seconds if wait else None)


def release(job: Job, reason: Reason = "", wait: WaitUntilDone = False, timeout: Timeout = "5m") -> None:
    """Release a job from quarantine: the State Syncer tries its change again."""
    connection, seconds = client(), duration_seconds(timeout, field="timeout")
    say_and_wait(connection, connection.release(job, reason=reason), seconds if wait else None)


def tasks(job: Job, as_json: AsJson = False) -> None:
    """List the tasks of a job, and below the table the error of each task that does not run well.

    `lag s`: the backlog divided by the rate at which the task works, no less than the age of an unfinished batch,
    and no more than the age of the oldest unread row; unknown in the first batches after a start.
    `rows/s`: rows read in the last minute. Tasks whose last windows wait for newer rows are named, too.
    """
    connection = client()
    answer = connection.tasks(job)
    if as_json:
        return show_json(answer)
    if not answer.tasks:
        return say(no_tasks(connection.get_job(job)))
    rows = [
        (t.task, state_of(t), t.container, t.revision, t.generation, t.crashes, *figures_of(t)) for t in answer.tasks
    ]
    table(("task", "state", "container", "revision", "generation", "crashes", *FIGURES), rows)
    for text, names in by_error(answer.tasks).items():
        say(f"{', '.join(names)}: {text}")
    for line in waiting_lines(answer.tasks):
        say(line)
    for each in answer.tasks:
        if each.avoids:
            say(f"{each.task} stays away from {', '.join(each.avoids)} for a while: `penstock move`")
    return None


def no_tasks(job: JobView) -> str:
    """Why a job has no tasks."""
    if job.running_revision is None:
        return f"{job.job} has no tasks yet: it is {job.state}, see `penstock watch {job.job}`"
    return f"{job.job} has no tasks: it is {job.state}"


def waiting_lines(tasks: Iterable[TaskView]) -> Iterator[str]:
    """What to know of the tasks whose last windows wait for newer rows."""
    behind = {task.task: task.watermark_behind_seconds for task in tasks if task.watermark_behind_seconds is not None}
    if behind:
        most = max(behind.values())
        yield (
            f"{first_few(behind)}: all rows are read, and the watermark is up to {most:,.0f} s behind that of other "
            "tasks. Windows that end in that time are written when newer rows reach these tasks. To write them by the "
            "clock, set idle_timeout_seconds on all inputs"
        )


def sync(job: Job) -> None:
    """Show how far a job is from its expected configuration, and what blocks it, as JSON."""
    show_json(client().sync(job))
