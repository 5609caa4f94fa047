"""Causes of lag, and of waiting for others, by what was measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.config.keygroups import ranges
from penstock.model.alerts import AlertKind
from penstock.model.causes import CauseKind, Certainty
from penstock.model.health import HELD_BACK_SECONDS, START, runs_well
from penstock.model.states import Health
from penstock.tasks import balance
from penstock.tasks.warm_up import COLD_BATCHES, WARM_UP_SECONDS, seconds_to_a_rate
from services.job_service.causes.changes import is_limited
from services.job_service.causes.facts import (
    OF_OPERATORS,
    Cause,
    Facts,
    Upstream,
    coming_in,
    is_lagging,
    lag_now,
    numbers,
    present,
    said_by,
)

if TYPE_CHECKING:
    from services.job_service.store.overview import ReportedTask

UNEVEN = 1.5
"""The busiest task gets so many times the mean."""
_LEAST_GAIN = 0.1
BUSY, IDLE = 0.8, 0.15
_TREND_MINUTES = 10
_MOST_TASKS = 32
_FINE = (Health.HEALTHY, Health.STARTING)
_SIZE = ("task_count", "max_task_count")


def causes_of_upstream(facts: Facts) -> Iterator[Cause]:
    """A job that writes an input: this one waits for it (its watermark), or it is unhealthy itself (possible)."""
    waiting = [task for task in facts.tasks if _is_held_back(task.progress)]
    for producer in sorted({str((task.progress or {})["held_back_by"]) for task in waiting}):
        job = producer.split("/")[0]
        told = [f"task {numbers(task.index for task in waiting)}: the watermark waits for {producer}"]
        told += [_of_writer(each) for each in facts.upstream if each.job == job]
        summary = f"it waits for {job}, which writes to its input"
        advice = f"`penstock why {job}`; or `completeness` drop_late, which loses late rows"
        # A task that crashes is wrong in itself.
        certainty = Certainty.LIKELY if facts.has(Health.CRASHING) else Certainty.CERTAIN
        yield Cause(CauseKind.UPSTREAM, certainty, summary, tuple(told), advice)
    known = {str((task.progress or {})["held_back_by"]).split("/")[0] for task in waiting}
    for writer in facts.upstream:
        if writer.job not in known and writer.health not in _FINE and not facts.has(Health.STOPPED):
            summary = f"the job {writer.job}, which writes to its input, is {writer.health}"
            advice = f"`penstock why {writer.job}`"
            yield Cause(CauseKind.UPSTREAM, Certainty.POSSIBLE, summary, (_of_writer(writer),), advice)


def _is_held_back(progress: Any) -> bool:
    found = progress or {}
    return found.get("held_back_by") is not None and (found.get("held_back_seconds") or 0.0) >= HELD_BACK_SECONDS


def _of_writer(writer: Upstream) -> str:
    why = f": {writer.reason.partition(chr(10))[0]}" if writer.reason else ""
    return f"{writer.job} writes the topic {writer.topic} and is {writer.health}{why}"


def causes_of_lag(facts: Facts) -> Iterator[Cause]:
    """Uneven input, an unfinished batch, a job that is too small or at its limit, and what many jobs share."""
    if not facts.has(Health.LAGGING):
        return
    for alert in facts.alerts_of(AlertKind.SCALING_FROZEN):
        advice = "look for what the jobs share: Kafka, the network, a storage: `penstock status`"
        yield Cause(CauseKind.MANY_JOBS, Certainty.LIKELY, "many jobs lag at once", (alert.message,), advice)
    hot = _hot(facts)
    if hot is not None:
        yield hot
    stuck = _stuck(facts)
    yield from stuck
    yield from _warming_up(facts)
    if hot is None and not stuck:
        yield from _too_small(facts)


def _hot(facts: Facts) -> Cause | None:
    """The tasks that lag get far more than their share."""
    tasks, loads = int(facts.config.get("task_count", 1)), balance.completed(facts.key_group_rates)
    if loads is None or tasks < 2 or tasks > len(loads) or not sum(loads):
        return None
    parts = ranges(len(loads), tasks, facts.config.get("key_group_bounds"))
    load = balance.load(loads, parts)
    sums = [sum(loads[part.lo : part.hi]) for part in parts]
    busiest = sums.index(max(sums))
    lagging = {task.index for task in facts.tasks if is_lagging(facts, task)}
    if load.imbalance < UNEVEN or busiest not in lagging:
        return None
    part = parts[busiest]
    group = max(range(part.lo, part.hi), key=loads.__getitem__)
    share = loads[group] / sum(loads)
    found = balance.proposal(facts.key_group_rates, tasks, parts)
    told = [
        f"task {busiest} gets {load.largest:,.0f} rows/s, {load.imbalance:.1f} times the mean",
        f"key group {group} alone has {share:.0%} of the input",
    ]
    if found is not None and found.gain >= _LEAST_GAIN:
        told.append(f"other ranges of key groups would take {found.gain:.0%} from it")
        advice = "`penstock rebalance JOB`"
    else:
        advice = (
            "no other ranges help: find the key with most rows, and spread it (another key, or a shuffle job before)"
        )
    certainty = Certainty.CERTAIN if lagging <= _above_mean(sums) else Certainty.LIKELY
    return Cause(CauseKind.HOT_KEY_GROUP, certainty, f"key group {group} is hot", tuple(told), advice)


def _above_mean(sums: list[float]) -> set[int]:
    mean = sum(sums) / len(sums)
    return {index for index, each in enumerate(sums) if each > mean}


def _stuck(facts: Facts) -> list[Cause]:
    """Batches that do not finish, or tasks that do little although much waits: something does not answer them."""
    late, idle = [], []
    for task in facts.tasks:
        progress = task.progress or {}
        oldest, busy = progress.get("oldest_unread_seconds"), progress.get("busy_share")
        if not is_lagging(facts, task) or _is_cold(task):
            continue
        by_rate = lag_now(task).seconds
        if oldest is not None and oldest > facts.job.max_lag_seconds and (by_rate is None or oldest >= by_rate):
            late.append((task.index, f"its batch has not finished for {oldest:,.0f} s{_phase(progress)}"))
        elif busy is not None and busy < IDLE and not _waits_for_trigger(facts) and not is_limited(facts, task):
            idle.append((task.index, f"it works {busy:.0%} of the time, although rows wait"))
    if late:
        told = tuple(f"task {index}: {text}" for index, text in late[:3])
        summary = "batches do not finish: what the job writes to, or a table that it reads, is slow or does not answer"
        advice = "look at the output and at the tables of the job; `penstock logs JOB TASK`"
        return [Cause(CauseKind.OUTPUT_ERROR, Certainty.LIKELY, summary, told, advice)]
    if idle:
        told = tuple(f"task {index}: {text}" for index, text in idle[:3])
        summary = "tasks read little although rows wait: what they read from is slow or does not answer"
        return [Cause(CauseKind.INPUT_ERROR, Certainty.LIKELY, summary, told, "look at Kafka: `penstock status`")]
    return []


def _is_cold(task: ReportedTask) -> bool:
    """Whether a task may only be starting: a rate is known once it is warm (`penstock.spark.measure.rates`)."""
    progress = task.progress or {}
    oldest = progress.get("oldest_unread_seconds") or 0.0
    return progress.get("processed_rows_per_second") is None and oldest <= START.total_seconds()


def _warming_up(facts: Facts) -> Iterator[Cause]:
    """Tasks that lag in their first batches."""
    cold = [task.index for task in facts.tasks if is_lagging(facts, task) and _is_cold(task)]
    if cold:
        told = f"task {numbers(cold)} has finished no batch since its start that shows how fast it works"
        summary = (
            "it has just started: the first batches load state and compile code, and what waited is read meanwhile"
        )
        advice = "wait a few minutes, then ask again"
        yield Cause(CauseKind.WARMING_UP, Certainty.LIKELY, summary, (told,), advice)


def causes_of_unknown_lag(facts: Facts) -> Iterator[Cause]:
    """Tasks that run, and that have just started: how far they are behind is not measured yet."""
    cold = [task.index for task in present(facts) if _is_unmeasured(task)]
    if cold and facts.verdict.health is Health.UNKNOWN:
        seconds = seconds_to_a_rate(float(facts.config.get("trigger_interval_seconds") or 0.0))
        told = f"task {numbers(cold)}: rows wait, and no batch since its start shows how fast it works"
        summary = "it has just started: how far it is behind is not measured yet"
        advice = (
            f"wait: the first {COLD_BATCHES} batches, and those of the first {WARM_UP_SECONDS:.0f} s of a Spark host, "
            f"do not count; it is known about {seconds:,.0f} s after the start, or when a longer batch has finished"
        )
        yield Cause(CauseKind.WARMING_UP, Certainty.LIKELY, summary, (told,), advice)


def _is_unmeasured(task: ReportedTask) -> bool:
    """Whether a task runs, has finished a batch, and has rows to read, but none of its batches was a warm one."""
    progress = task.progress or {}
    finished = runs_well(task.state, progress.get("batch_id")) and progress.get("silent_seconds") is None
    return finished and bool(progress.get("backlog_records")) and progress.get("processed_rows_per_second") is None


def _phase(progress: Any) -> str:
    phases = progress.get("phase_seconds") or {}
    if not phases:
        return ""
    name = max(phases, key=phases.__getitem__)
    return f"; of the batch before, {name} took {phases[name]:,.1f} s"


def _waits_for_trigger(facts: Facts) -> bool:
    return float(facts.config.get("trigger_interval_seconds") or 0.0) > facts.job.max_lag_seconds / 2


class _Load(NamedTuple):
    comes: float | None
    can: float | None
    busy: float | None


def _too_small(facts: Facts) -> Iterator[Cause]:
    """All tasks are busy, or more comes in than they can do."""
    load = _load(facts)
    told = []
    if load.comes is not None and load.can is not None and load.comes > load.can * BUSY:
        told.append(f"{load.comes:,.0f} rows/s come in, and the tasks do {load.can:,.0f} rows/s while they work")
    if load.busy is not None and load.busy >= BUSY:
        told.append(f"the tasks work {load.busy:.0%} of the time")
    if facts.is_changing("task_count"):
        return
    if not told:
        yield from _catching_up(facts, load)
        return
    told += _decided(facts)
    count, limit = int(facts.config.get("task_count", 1)), _limit(facts)
    sizes = [leaf for name in _SIZE if (leaf := facts.setting(name)) is not None]
    pinned = next((leaf for leaf in sizes if leaf.layer in OF_OPERATORS and facts.runs(leaf)), None)
    if pinned is not None:
        summary = f"the layer {pinned.layer} holds the job at {pinned.field} {pinned.value}, which is too small"
        advice = f"`penstock layers drop JOB {pinned.layer}`, or `penstock rescale JOB N`"
        yield Cause(CauseKind.HELD_BY_LAYER, Certainty.LIKELY, summary, (said_by(pinned), *told), advice)
    elif count >= limit:
        own = [said_by(leaf) for leaf in sizes]
        summary = f"the job needs more than the {limit} tasks that it may have"
        advice = _beyond(facts, limit)
        yield Cause(CauseKind.AT_LIMIT, Certainty.LIKELY, summary, (*told, *own), advice)
    elif any(leaf.field == "task_count" and not facts.runs(leaf) for leaf in sizes):
        told += [f"{said_by(leaf)}; the job does not run that yet" for leaf in sizes if not facts.runs(leaf)]
        yield Cause(CauseKind.TOO_SMALL, Certainty.LIKELY, _too_few(count), tuple(told), "wait: `penstock watch JOB`")
    else:
        asks = "does the Auto Scaler run (`penstock decisions JOB --why`)?"
        advice = f"`penstock rescale JOB {min(limit, 2 * count)}`; {asks}"
        yield Cause(CauseKind.TOO_SMALL, Certainty.LIKELY, _too_few(count), tuple(told), advice)


def _too_few(count: int) -> str:
    return "one task is too few" if count == 1 else f"{count} tasks are too few"


def _decided(facts: Facts) -> list[str]:
    newest = facts.decision
    reason = None if newest is None else newest.inputs.get("reason")
    if newest is None or reason is None:
        return []
    return [f"the newest decision of the Auto Scaler, at {newest.at:%H:%M} UTC: {reason}"]


def _beyond(facts: Facts, limit: int) -> str:
    """What to do about the limit that counts: the least of both."""
    if limit < int(facts.config.get("max_task_count", _MOST_TASKS)):
        return "each task needs a key group: give the topic more partitions, and then the job more `key_groups`"
    return f"`penstock override JOB max_task_count={2 * limit} --reason ... --for 2h`; for good, in the layer below"


def _catching_up(facts: Facts, load: _Load) -> Iterator[Cause]:
    """The lag shrinks, and the tasks do more than comes in."""
    lags = [minute.lag_seconds for minute in facts.minutes[-_TREND_MINUTES:] if minute.lag_seconds is not None]
    backlog = _sum(facts, "backlog_records")
    if len(lags) < 2 or lags[-1] >= lags[0] or backlog is None or load.comes is None or load.can is None:
        return
    if load.can > load.comes:
        minutes = backlog / (load.can - load.comes) / 60
        told = (
            f"the lag went from {lags[0]:,.0f} s to {lags[-1]:,.0f} s in the last minutes",
            f"the tasks do {load.can:,.0f} rows/s, and {load.comes:,.0f} rows/s come in",
        )
        advice = f"wait about {max(1.0, minutes):,.0f} minutes; more tasks are faster: `penstock rescale JOB N`"
        yield Cause(CauseKind.CATCHING_UP, Certainty.LIKELY, "it catches up with what waited", told, advice)


def _limit(facts: Facts) -> int:
    streams = dict(facts.config.get("streams") or {}).values()
    inputs = dict(facts.config.get("inputs") or {}).values()
    groups = [int(stream.get("key_groups") or 1) for stream in streams]
    groups += [int(source.get("key_groups") or 0) for source in inputs]
    most = int(facts.config.get("max_task_count", _MOST_TASKS))
    return min(most, min((number for number in groups if number), default=most))


def _load(facts: Facts) -> _Load:
    """Of all tasks together; None where some task does not report it. What comes in is taken to be what is read where
    it is not measured."""
    comes = coming_in(facts)
    read = _sum(facts, "input_rows_per_second") if comes is None else comes
    return _Load(read, _sum(facts, "processed_rows_per_second"), _mean(facts, "busy_share"))


def _values(facts: Facts, name: str) -> list[float] | None:
    values = [(task.progress or {}).get(name) for task in facts.tasks]
    known = [float(value) for value in values if value is not None]
    return known if known and len(known) == len(values) else None


def _sum(facts: Facts, name: str) -> float | None:
    known = _values(facts, name)
    return None if known is None else sum(known)


def _mean(facts: Facts, name: str) -> float | None:
    known = _values(facts, name)
    return None if known is None else sum(known) / len(known)
