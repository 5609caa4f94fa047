"""`penstock apply`: a folder of jobs as the cell shall have them, with a report of what differs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import typer

from penstock.cli.arguments import AllowRepeats, Reason, Timeout, Verify, WaitUntilDone
from penstock.cli.bar import counting
from penstock.cli.connection import client, definition, say_written
from penstock.cli.drift import Kind, Present, Step, steps
from penstock.cli.errors import Exit, line, required
from penstock.cli.output import note, say
from penstock.cli.parse import duration_seconds, name_of
from penstock.cli.waiting import wait_for, wait_until_gone
from penstock.config.merge import leaves
from penstock.control.errors import Conflict, NotFound, PenstockError, UserError
from penstock.model.jobs import Action, JobState
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import Written

_SUFFIX = ".json"


class Chosen(TypedDict):
    """What the caller chose of all writes."""

    verify: bool
    allow_repeats: bool


def apply(
    folder: Annotated[
        Path, typer.Option("--folder", "-f", help="folder with a file JOB.json for each job: its base layer")
    ],
    prune: Annotated[
        bool, typer.Option("--prune", help="also delete the jobs of --prefix or --owner that have no file; with --yes")
    ] = False,
    prefix: Annotated[
        str | None,
        typer.Option(
            help="also report (with --prune: delete) jobs with this prefix that have no file; without --prefix or "
            "--owner such jobs are not looked at"
        ),
    ] = None,
    owner: Annotated[
        str | None, typer.Option(help="the same for jobs of this owner; with --prefix: for jobs that match both")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="only report what differs: exit code 4 if anything does")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="with --prune: do delete")] = False,
    reason: Reason = "",
    verify: Verify = True,
    allow_repeats: AllowRepeats = False,
    wait: WaitUntilDone = False,
    timeout: Timeout = "10m",
) -> None:
    """Create and change the jobs of a folder, and report what differs from the cell.

    All files are read and checked before the first write. A file that breaks a rule: nothing is written. A query that
    Spark refuses, or a job that somebody else wrote meanwhile: that job is left, the others are written. All of these
    end with 1. Jobs that are equal are not written. `${data_dir}` and `${job}` are replaced.

    Deletes come last, and only when no write was refused.

    Exit codes: 0 done, or nothing differs; 1 refused, or with --wait a job cannot run; 3 still not done after
    --timeout; 4 of --dry-run: something differs.
    """
    seconds = duration_seconds(timeout, field="timeout")
    _require_filters(prefix, owner, prune=prune)
    if prune:
        _require_only_jobs(folder)
    wanted = dict(read_folder(folder))
    connection = client()
    plan = steps(wanted, _present(connection, wanted), _others(connection, wanted, prefix, owner), prune=prune)
    _say_report(connection, plan, hidden=dry_run)
    chosen = Chosen(verify=verify, allow_repeats=allow_repeats)
    _require_allowed(connection, plan, chosen, tells=dry_run)
    if dry_run:
        differs = any(step.kind is not Kind.SAME for step in plan)
        raise typer.Exit(Exit.DRIFT if differs else Exit.DONE)
    gone = [step.job for step in plan if step.kind is Kind.PRUNE]
    if gone and not yes:
        raise Conflict(f"these jobs would be deleted: {', '.join(gone)}. Add --yes", field="prune", rule="confirmed")
    done = _write_all(connection, plan, reason, chosen)
    if wait:
        _await_all(connection, done, seconds)


def _require_filters(prefix: str | None, owner: str | None, *, prune: bool) -> None:
    """Raises UserError for a prune without a filter, and for an empty one, which would name every job of the cell."""
    if prune and prefix is None and owner is None:
        raise required("say which jobs may be deleted: --prefix or --owner", field="prune")
    for field, given in (("prefix", prefix), ("owner", owner)):
        if given is not None and not given.strip():
            raise UserError(f"--{field} is empty: it would name every job", field=field, rule="not_empty")


def _require_only_jobs(folder: Path) -> None:
    """Raises UserError when a folder has what is not read: a job that it does not show must not be deleted."""
    for found in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not found.name.startswith(".") and (found.suffix != _SUFFIX or not found.is_file()):
            told = f"{found} is no file JOB{_SUFFIX}: jobs that it has would be deleted. Move it elsewhere"
            raise UserError(told, field="prune", rule="only_jobs")


def read_folder(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The jobs of a folder, by name. Raises UserError for a file that is no definition."""
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder", field="folder", rule="folder")
    files = sorted(folder.glob(f"*{_SUFFIX}"))
    if not files:
        raise UserError(f"{folder} has no file JOB{_SUFFIX}", field="folder", rule="not_empty")
    for file in files:
        job = str(name_of("job")(file.name.removesuffix(_SUFFIX)))
        try:
            yield job, definition(job, str(file))
        except UserError as error:
            raise UserError(f"{file}: {error.detail}", field=error.field, rule=error.rule) from error


def _present(connection: JobClient, jobs: Collection[str]) -> dict[str, Present]:
    going = {job.job for job in connection.list_jobs(state=JobState.DELETING)}
    found = {}
    with counting("reading jobs", list(jobs)) as each:
        for job in each:
            try:
                layer = connection.get_layer(job, "base")
            except NotFound:
                continue
            if layer.config is not None or job in going:
                found[job] = Present(layer.config, layer.version, job in going)
    return found


def _others(connection: JobClient, wanted: Collection[str], prefix: str | None, owner: str | None) -> dict[str, int]:
    """The jobs that the filters name and the folder does not have, with the versions of their base layers."""
    if prefix is None and owner is None:
        return {}
    found = connection.list_jobs(prefix=prefix, owner=owner)
    others = [job.job for job in found if job.job not in wanted and job.state is not JobState.DELETING]
    return {job: present.version for job, present in _present(connection, others).items() if not present.going}


def _say_report(connection: JobClient, plan: Sequence[Step], *, hidden: bool) -> None:
    """What is to be done with each job and why; `hidden`: also values of the folder that higher layers hide."""
    present = [step for step in plan if hidden and step.kind in (Kind.CHANGE, Kind.SAME)]
    above = _above_base(connection) if present else frozenset()
    for step in plan:
        over = list(_hidden(connection, step, above)) if step in present else []
        if step.kind is not Kind.SAME or over:
            say(f"{step.kind} {step.job}", style="bold")
            for text in (*step.lines, *over):
                say(f"  {text}")
    counts = Counter(step.kind for step in plan)
    say(", ".join(f"{counts[kind]} {kind}" for kind in Kind if counts[kind]))


def _above_base(connection: JobClient) -> frozenset[str]:
    """The layers of the cell that override what the folder sets, those that it has made itself too."""
    ranks = {layer.name: layer.rank for layer in connection.layers()}
    return frozenset(name for name, rank in ranks.items() if rank > ranks["base"])


def _hidden(connection: JobClient, step: Step, above: Collection[str]) -> Iterator[str]:
    set_here = {path for path, _ in leaves(step.content or {})}
    for leaf in connection.explain(step.job).leaves:
        if leaf.layer in above and tuple(leaf.path) in set_here:
            yield f"{leaf.field}: the layer {leaf.layer} of {leaf.author or 'nobody'} hides it with {leaf.value}"


def _require_allowed(connection: JobClient, plan: Sequence[Step], chosen: Chosen, *, tells: bool) -> None:
    """Raises the first refusal, before anything is written; all are noted. `tells`: also what writes would say."""
    refused: list[PenstockError] = []
    with counting("checking jobs", plan) as each:
        for step in each:
            try:
                told = _require_step(connection, step, chosen)
            except UserError as error:
                note(f"{step.job}: {line(error)}")
                refused.append(error)
            else:
                for text in told if tells else ():
                    note(f"{step.job}: {text}")
    if refused:
        raise refused[0]


def _require_step(connection: JobClient, step: Step, chosen: Chosen) -> list[str]:
    """The notes that the write of this step would have. Raises UserError when the write would be refused, and for a job
    that is being deleted."""
    if step.kind is Kind.GOING:
        raise Conflict(f"the job {step.job} is being deleted: wait until it is gone", field="job", rule="deleting")
    if step.content is None or step.kind is Kind.SAME:
        return []
    given: Chosen = {"verify": False, "allow_repeats": chosen["allow_repeats"]}
    return connection.plan(step.job, step.content, layer="base", action="put", **given).notes


def _write_all(connection: JobClient, plan: Sequence[Step], reason: str, chosen: Chosen) -> list[Written]:
    """Writes, then deletes; what was done. One that is refused does not keep the others; then it ends with exit code 1.
    After a refused write nothing is deleted: it may be what replaces a job that has no file any more."""
    deletes = [step for step in plan if step.kind is Kind.PRUNE]
    writes = [step for step in plan if step.content is not None and step.kind in (Kind.CREATE, Kind.CHANGE)]
    done, refused = _each(connection, writes, reason, chosen)
    if refused and deletes:
        told = f"{refused} of {len(plan)} jobs were refused; the other writes are done, and no job was deleted"
        raise Conflict(told, rule="allowed")
    deleted, kept = _each(connection, deletes, reason, chosen)
    if refused + kept:
        raise Conflict(f"{refused + kept} of {len(plan)} jobs were refused; the others are done", rule="allowed")
    return done + deleted


def _each(connection: JobClient, todo: Sequence[Step], reason: str, chosen: Chosen) -> tuple[list[Written], int]:
    """Does the steps; what was written, and how many were refused."""
    done: list[Written] = []
    with counting("writing jobs", todo) as each:
        for step in each:
            try:
                done.append(_write(connection, step, reason, chosen))
                say_written(done[-1])
            except UserError as error:
                note(f"{step.job}: {line(error)}")
    return done, len(todo) - len(done)


def _write(connection: JobClient, step: Step, reason: str, chosen: Chosen) -> Written:
    if step.content is None:
        return connection.delete_job(step.job, if_match=step.version, reason=reason)
    if step.kind is Kind.CREATE:
        return connection.put_job(step.job, step.content, create_only=True, reason=reason, **chosen)
    return connection.put_job(step.job, step.content, if_match=step.version, reason=reason, **chosen)


def _await_all(connection: JobClient, done: Sequence[Written], seconds: float) -> None:
    """Waits for each job in turn. Raises Conflict once it has looked at all, TimeoutError when the time is over."""
    until, failed = time.monotonic() + seconds, 0
    for written in done:
        left = max(0.0, until - time.monotonic())
        try:
            if written.action == Action.DELETE:
                wait_until_gone(connection, written.job, left)
            else:
                wait_for(connection, written.job, written.revision, left)
        except Conflict as error:
            failed += 1
            note(f"{written.job}: {line(error)}")
    if failed:
        told = f"{failed} of {len(done)} jobs cannot run; the others do: `penstock why JOB` says why"
        raise Conflict(told, rule="runs")
