"""Causes that somebody's write is: a layer that stops or limits the job, a change that failed, a change just before.
Pure.

`is_code`, `_LESS` and `_MORE` say which fields can make what worse. A change counts when the job runs it, and when it
was written at most half an hour before the first crash, or before the first minute over the SLO.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Any

from penstock.config.model import DesiredState
from penstock.control.texts import first_few
from penstock.model.causes import CauseKind, Certainty
from penstock.model.health import CRASHES_KEPT
from penstock.model.jobs import Action
from penstock.model.states import Health, JobState
from penstock.wire.jobs import ExplainedLeafView, HistoryEntry
from services.job_service.causes.crashes import failed_tasks
from services.job_service.causes.facts import (
    OF_OPERATORS,
    Attempts,
    Cause,
    Crashes,
    Facts,
    Minute,
    coming_in,
    is_lagging,
    said_by,
)
from services.job_service.causes.writes import (
    WRITES,
    Changed,
    changed_by,
    changed_leaves,
    effective,
    is_code,
    is_hidden,
    runs,
    way_back,
    when_and_whose,
    write_in_words,
)

if TYPE_CHECKING:
    from services.job_service.store.overview import ReportedTask

SOON = timedelta(minutes=30)
_MINUTE = timedelta(minutes=1)
_SLACK = timedelta(minutes=2)
"""Lags are known by the minute; crashes exactly, so one before a change is never blamed on it."""
_NEARLY = 0.8
"""A task that reads this share of what it may is held by the limit: batches never begin exactly in time."""
_BUSY = 0.8
_MORE_RECORDS = 10
_LESS = (
    "task_count",
    "resources.cpu_cores",
    "resources.memory_bytes",
    "threads_per_task",
    "max_records_per_trigger",
    "max_bytes_per_trigger",
    "max_batch_seconds",
    "slo.max_lag_seconds",
)
"""A smaller value makes lag or lack of memory worse."""
_MORE = ("trigger_interval_seconds",)
_MEMORY = ("resources.memory_bytes", "task_count", "isolation", "threads_per_task")


def causes_of_layers(facts: Facts) -> Iterator[Cause]:
    """A layer that keeps the job from running, or its tasks from reading."""
    stopped = facts.setting("desired_state")
    if stopped is not None and stopped.value == DesiredState.STOPPED and facts.has(Health.STOPPED):
        drop = f", or `penstock layers drop JOB {stopped.layer}`" if stopped.layer in OF_OPERATORS else ""
        advice = f"`penstock jobs start JOB`{drop}"
        told = (said_by(stopped),)
        yield Cause(
            CauseKind.HELD_BY_LAYER, Certainty.CERTAIN, f"the layer {stopped.layer} stops the job", told, advice
        )
    if facts.has(Health.LAGGING):
        yield from _limits(facts)


def _limits(facts: Facts) -> Iterator[Cause]:
    """A trigger that is longer than the SLO, or batches that are as large as they may be while rows wait."""
    trigger, slo = facts.setting("trigger_interval_seconds"), facts.job.max_lag_seconds
    if trigger is not None and facts.runs(trigger) and float(trigger.value) > slo:
        told = (said_by(trigger), f"rows wait that long, and the SLO is {slo:,.0f} s")
        summary = "batches begin further apart than the SLO allows"
        yield Cause(CauseKind.HELD_BY_LAYER, Certainty.CERTAIN, summary, told, _instead(trigger, f"{slo / 2:g}"))
    most, seconds = facts.setting("max_records_per_trigger"), _trigger_seconds(facts)
    held = [task for task in facts.tasks if is_lagging(facts, task) and is_limited(facts, task)]
    if held and most is not None:
        read = (said_by(most), *_read_and_waiting(facts, held, most.value, seconds))
        is_busy = any(((task.progress or {}).get("busy_share") or 0.0) >= _BUSY for task in held)
        certainty = Certainty.LIKELY if is_busy else Certainty.CERTAIN
        advice = _instead(most, str(_MORE_RECORDS * int(most.value)))
        yield Cause(CauseKind.HELD_BY_LAYER, certainty, "a layer limits what tasks read", read, advice)


def is_limited(facts: Facts, task: ReportedTask) -> bool:
    """Whether a task reads as much as `max_records_per_trigger` lets it, while more waits."""
    most, seconds = facts.setting("max_records_per_trigger"), _trigger_seconds(facts)
    if most is None or not facts.runs(most) or not seconds:
        return False
    return _reads_all_it_may(task, most.value, seconds)


def _trigger_seconds(facts: Facts) -> float:
    return float(facts.config.get("trigger_interval_seconds") or 0)


def _reads_all_it_may(task: ReportedTask, most: float, seconds: float) -> bool:
    """Whether a task reads about `most` records in each batch, and another such batch waits. The rate is that of the
    last minute: where rows have just come, the last batch shows it first."""
    progress = task.progress or {}
    read, waits = progress.get("input_rows_per_second"), progress.get("backlog_records")
    if waits is None or waits < most:
        return False
    return (read is not None and read >= _NEARLY * most / seconds) or _is_full(progress, most, seconds)


def _is_full(progress: Mapping[str, Any], most: float, seconds: float) -> bool:
    """Whether the last batch had as many records as it may, and was done before the next was due."""
    rows, took = progress.get("input_rows"), progress.get("batch_seconds")
    return rows is not None and took is not None and rows >= _NEARLY * most and took <= seconds


def _read_and_waiting(facts: Facts, held: list[ReportedTask], most: float, seconds: float) -> Iterator[str]:
    may = most / seconds
    for task in held[:3]:
        progress = task.progress or {}
        read = progress.get("input_rows_per_second")
        has = "all" if read is None else f"{read:,.1f} rows/s of the {may:,.1f}"
        yield f"task {task.index} reads {has} that it may, and {progress['backlog_records']:,.0f} rows wait for it"
    comes = coming_in(facts)
    if comes is not None:
        all_may = may * int(facts.config.get("task_count", 1))
        yield f"{comes:,.1f} rows/s come in, and all tasks together may read {all_may:,.1f} rows/s"


def _instead(leaf: ExplainedLeafView, value: str) -> str:
    """How to have another value. A layer below `oncall` is hidden by an override: to drop it would take more away."""
    if leaf.layer in OF_OPERATORS:
        back = f"`penstock history JOB` and `penstock revert JOB {leaf.layer} VERSION`"
        return f"`penstock layers drop JOB {leaf.layer}`, or {back}"
    return (
        f"`penstock override JOB {leaf.field}={value} --reason ... --for 2h`; for good, change the layer {leaf.layer}"
    )


def causes_of_failed_changes(facts: Facts) -> Iterator[Cause]:
    """A change that the State Syncer cannot carry out, also while it tries again."""
    failed, attempts = facts.job.state in (JobState.QUARANTINED, JobState.FAILED), facts.attempts
    if not failed and attempts is None:
        return
    newest = next((entry for entry in facts.changes if entry.action in WRITES or entry.action == Action.CREATE), None)
    by = () if newest is None else (write_in_words(newest, changed_by(facts, newest)),)
    gave_up = facts.job.state is JobState.QUARANTINED
    what = f" of {first_few(attempts.fields)}" if attempts is not None and attempts.fields else ""
    ends = "and is not tried again" if gave_up else "and is tried again"
    summary = f"the last change{what} could not be made, {ends}"
    advice = "mend what the message names and write the job again, or `penstock release JOB`"
    # A crash that goes on may be why the change fails, and is nearer.
    certainty = Certainty.LIKELY if facts.has(Health.CRASHING) and not gave_up else Certainty.CERTAIN
    told = [*_failures(facts, attempts, gave_up=gave_up), *by]
    yield Cause(CauseKind.CHANGE_FAILED, certainty, summary, tuple(told), advice)


def _failures(facts: Facts, attempts: Attempts | None, *, gave_up: bool) -> Iterator[str]:
    """How often it failed and why, and when it is tried next."""
    if attempts is None:
        yield facts.job.detail
        return
    times = "one attempt" if attempts.failures == 1 else f"{attempts.failures} attempts"
    yield f"{times} failed" + (f"; the last one: {attempts.reason}" if attempts.reason else "")
    if attempts.next_at is not None:
        yield f"the next attempt is at {attempts.next_at:%H:%M:%S} UTC"
    elif not gave_up:
        yield f"it is tried now: {facts.job.detail or facts.job.state}"


def causes_of_recent_changes(facts: Facts) -> Iterator[Cause]:
    """The newest write that the job runs, if what is wrong began after it and it can be the reason."""
    begins_at, is_crash = _begins_at(facts), bool(failed_tasks(facts))
    for entry in facts.changes:
        if entry.action not in WRITES or entry.layer is None or not runs(facts, entry):
            continue
        crashed_before = _crashed_before(facts, entry.at) if is_crash else False
        if crashed_before:
            continue
        if not _is_soon(facts, entry, begins_at, timedelta(0) if is_crash else _SLACK):
            continue
        changed = [
            effective(facts, each) for each in changed_leaves(entry.old, entry.new) if not is_hidden(facts, each)
        ]
        harmful = [each for each in changed if _can_be(facts, each)]
        if not harmful:
            continue
        is_known = begins_at is not None and not (crashed_before is None and _forgot_crashes(facts))
        is_sure = is_known or any(_is_worse(each) for each in harmful)
        certainty = Certainty.CERTAIN if is_sure else Certainty.LIKELY
        began = () if begins_at is None else (_began(begins_at, is_crash=is_crash),)
        told = (write_in_words(entry, harmful), *began)
        yield Cause(CauseKind.RECENT_CHANGE, certainty, _what_changed(entry, harmful[0]), told, way_back(entry))
        return


def causes_of_restores(facts: Facts) -> Iterator[Cause]:
    """A job that was set back to a savepoint has to read again what came after it."""
    restores = (each for each in facts.changes if each.action in (Action.RESTORE, Action.CANCEL_RESTORE))
    entry, begins_at = next(restores, None), _begins_at(facts)
    if entry is None or entry.action != Action.RESTORE or not facts.has(Health.LAGGING) or failed_tasks(facts):
        return
    if runs(facts, entry) and _is_soon(facts, entry, begins_at, _SLACK) and not _lagged_before(facts, entry):
        told = f"restore {when_and_whose(entry)}"
        began = () if begins_at is None else (_began(begins_at, is_crash=False),)
        summary = "a restore set it to a savepoint, and it reads again what came after that"
        advice = "wait: `penstock metrics JOB` shows the lag; more tasks are faster: `penstock rescale JOB N`"
        certainty = Certainty.LIKELY if begins_at is None else Certainty.CERTAIN
        yield Cause(CauseKind.RECENT_CHANGE, certainty, summary, (told, *began), advice)


def _lagged_before(facts: Facts, entry: HistoryEntry) -> bool:
    """Whether the minutes over the SLO begin before the change, as far back as any are known."""
    over_since = _over_since(facts)
    return over_since is not None and over_since < entry.at - _SLACK


def _is_soon(facts: Facts, entry: HistoryEntry, begins_at: datetime | None, slack: timedelta) -> bool:
    """Whether it began at most half an hour after the change; where nobody knows, whether the change is so new."""
    since = _since(facts, entry)
    if begins_at is None:
        return facts.moment.now - since <= SOON
    return entry.at - slack <= begins_at <= since + SOON


def _what_changed(entry: HistoryEntry, first: Changed) -> str:
    if entry.action == Action.EXPIRE:
        return f"the layer {entry.layer} expired: {first.words}"
    return f"a change of the layer {entry.layer} by {entry.author}: {first.field}"


def _began(begins_at: datetime, *, is_crash: bool) -> str:
    """Lags are known by the minute: the minute in which a change was written may be the first one over the SLO."""
    if is_crash:
        return f"it began at {begins_at:%Y-%m-%d %H:%M:%S} UTC, after the change"
    return f"the first minute over the SLO is {begins_at:%Y-%m-%d %H:%M} UTC"


def _since(facts: Facts, entry: HistoryEntry) -> datetime:
    """When the change began to count: with its commit, if it is what was committed last."""
    committed = facts.job.committed_at if entry.revision == facts.job.running_revision else None
    return entry.at if committed is None else max(entry.at, committed)


def _begins_at(facts: Facts) -> datetime | None:
    """The first of the crashes in a row, or of the minutes over the SLO without a break; None: unknown."""
    crashed = [each.crashed_at[0] for each in _crashes_now(facts)]
    if crashed:
        return min(crashed)
    over_since = _over_since(facts)
    is_at_edge = over_since == min((minute.at for minute in facts.minutes), default=None)
    return None if is_at_edge else over_since


def _over_since(facts: Facts) -> datetime | None:
    """The first of the minutes over the SLO without a break, which may have begun before any minute that is known;
    None: there is none."""
    first = None
    for minute in sorted(facts.minutes, key=lambda minute: minute.at, reverse=True):
        if minute.lag_seconds is None:
            continue
        if minute.lag_seconds <= facts.job.max_lag_seconds:
            break
        first = minute.at
    return first


def _crashes_now(facts: Facts) -> list[Crashes]:
    """Those of the tasks that fail now: a task may have crashed yesterday, and be well."""
    failed = {each.index for each in failed_tasks(facts)}
    return [each for each in facts.crashes if each.index in failed and each.crashed_at]


def _forgot_crashes(facts: Facts) -> bool:
    """Whether the store may have had older crashes of the same tasks, which it keeps a few of."""
    return any(len(each.crashed_at) >= CRASHES_KEPT for each in _crashes_now(facts))


def _crashed_before(facts: Facts, at: datetime) -> bool | None:
    """Whether tasks crashed for the same kind of reason in the half hour before; None: nothing is known of it. A
    restart begins a new series of crashes, so the series itself does not say. A host that was killed meanwhile says
    nothing about an error of the query, nor the other way round."""
    kinds = {each.kind for each in failed_tasks(facts)}
    before = (minute for minute in facts.minutes if at - SOON <= minute.at + _MINUTE <= at)
    known = [found for minute in before if (found := _crashed_by(minute, kinds)) is not None]
    return any(known) if known else None


def _crashed_by(minute: Minute, kinds: Collection[CauseKind]) -> bool | None:
    """Whether tasks crashed in a minute by one of these kinds; of any kind, where the kind is not known."""
    all_of_them, by_host, by_memory = minute.restarts, minute.restarts_by_host, minute.restarts_by_memory
    if all_of_them is None or by_host is None or by_memory is None:
        return None if minute.crashes is None else minute.crashes > 0
    named = {CauseKind.HOST_ENDED: by_host, CauseKind.OUT_OF_MEMORY: by_memory}
    return any(named.get(kind, all_of_them - by_host - by_memory) > 0 for kind in kinds)


def _can_be(facts: Facts, changed: Changed) -> bool:
    """Whether the change of a field can have made what is seen."""
    failed = failed_tasks(facts)
    is_of_code = is_code(changed)
    if any(each.kind is CauseKind.OUT_OF_MEMORY for each in failed):
        return is_of_code or (changed.field in _MEMORY and (_is_worse(changed) or changed.field == "isolation"))
    if failed:
        return is_of_code
    return facts.has(Health.LAGGING) and (is_of_code or _is_worse(changed))


def _is_worse(changed: Changed) -> bool:
    """Whether the value went where it gives tasks less room, or lets them read less. None is no limit."""
    old, new = _number(changed.old), _number(changed.new)
    return new > old if changed.field in _MORE else changed.field in _LESS and new < old


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else inf
