"""What a write would do to a job, without doing it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.config.classify import Config, classify
from penstock.config.model import ChangeKind, DesiredState, JobConfig
from penstock.tasks.host_task import COPY_STATE, INITIALIZE_SINK, REDISTRIBUTE, SEAL
from penstock.tasks.levelling import levels_while_running
from penstock.tasks.rates import Rates, catch_up_seconds
from penstock.tasks.rollout import ROLLOUT_SHARE, is_upgrade, wave_ends
from penstock.tasks.sinks import is_prepared, prepared_part
from penstock.tasks.spec import task_id
from penstock.wire.jobs import FieldChangeView, PlanView
from services.job_service.writes import refused_changes

_STEPS = {
    ChangeKind.NONE: ("commit",),
    ChangeKind.LIVE: ("commit", "apply_to_tasks"),
    ChangeKind.RESTART: ("commit", "restart_tasks"),
    ChangeKind.RESCALE: (
        COPY_STATE,
        "quiesce_tasks",
        "level_tasks",
        "stop_tasks",
        "await_stopped",
        REDISTRIBUTE,
        SEAL,
        "commit",
        "start_tasks",
    ),
    ChangeKind.FORBIDDEN: (),
}
_LEAVE_TASKS_ALONE = (ChangeKind.NONE, ChangeKind.FORBIDDEN)


def plan(
    job: str,
    layer: str,
    version: int,
    *,
    running: Mapping[str, Any] | None,
    before: Config,
    after: JobConfig,
    rescale_seconds: float | None = None,
    rates: Rates | None = None,
    rollout_share: float = ROLLOUT_SHARE,
    notes: Sequence[str] = (),
) -> PlanView:
    """The plan of a write to `layer`, at `version` now, that makes the expected configuration `after` of `before`.

    `running` is the running configuration. It is None for a job that never started; such a job may change all fields.
    `rescale_seconds`: for how long the last rescale of the job had it stopped, None when it had none. `rates` are its
    measured rates. `rollout_share` is the share of the tasks in one wave. `notes`: what else it brings about.
    """
    written = classify(before, after)
    wanted = after.model_dump(mode="json")
    fields = [FieldChangeView(**change.as_json()) for change in written.fields]
    about: dict[str, Any] = {"job": job, "layer": layer, "version": version, "fields": fields, "config": wanted}
    about["notes"] = list(notes)
    if running is None:
        return PlanView(**about, **_first_start(job, wanted))
    difference = classify(running, after)
    kind = difference.kind
    old, new = _task_count(running), _task_count(wanted)
    rolls = kind is ChangeKind.RESTART and old and new and is_upgrade(tuple(each.path for each in difference.fields))
    waves = _waves(job, new, rollout_share) if rolls else []
    steps = tuple(f"wave_{number}" for number in range(1, len(waves) + 1)) or _steps(
        kind, old, new, levels=_may_lag(running)
    )
    remade = not is_prepared(wanted, running)
    undisturbed = kind in (ChangeKind.NONE, ChangeKind.LIVE) or old == 0
    downtime = rescale_seconds if kind is ChangeKind.RESCALE else None
    return PlanView(
        **about,
        kind=kind.name.lower(),
        allowed=not refused_changes(running, before, after),
        steps=[*((INITIALIZE_SINK,) if remade and kind is not ChangeKind.FORBIDDEN else ()), *steps],
        tasks_touched=[] if kind in _LEAVE_TASKS_ALONE else _tasks(job, max(old, new)),
        downtime_seconds=0.0 if undisturbed else downtime,
        catch_up_seconds=0.0 if undisturbed else catch_up_seconds(rates or Rates(), downtime),
        waves=waves,
        completeness=after.completeness if kind is ChangeKind.RESCALE and _has_watermark(after) else None,
    )


def _first_start(job: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    count = _task_count(wanted)
    made = [INITIALIZE_SINK] if count and prepared_part(wanted, started=False) else []
    return {
        "kind": ChangeKind.NONE.name.lower(),
        "allowed": True,
        "is_new": True,
        "steps": [*made, "commit", "start_tasks"] if count else ["commit"],
        "waves": [],
        "completeness": None,
        "tasks_touched": _tasks(job, count),
        "downtime_seconds": 0.0,
        "catch_up_seconds": None,
    }


def _steps(kind: ChangeKind, old: int, new: int, *, levels: bool) -> tuple[str, ...]:
    if kind is ChangeKind.RESTART and not (old and new):
        return ("commit", *(("start_tasks",) if new else ()), *(("stop_tasks",) if old else ()))
    if kind is ChangeKind.RESCALE:
        # A job that is to stop gains nothing by a short stop.
        running = old if new else 0
        counts = {COPY_STATE: running, "quiesce_tasks": running, "stop_tasks": old, "start_tasks": new}
        counts["level_tasks"] = running if levels else 0
        absent = {step for step, count in counts.items() if not count}
        return tuple(step for step in _STEPS[kind] if step not in absent)
    return _STEPS[kind]


def _may_lag(running: Mapping[str, Any]) -> bool:
    """Whether tasks may be at different watermarks, so that some of them read on before the stop. An input without
    event time has no row to read up to."""
    inputs = running.get("inputs") or {}
    timed = all(source.get("event_time_column") and source.get("watermark_delay") for source in inputs.values())
    return timed and _task_count(running) > 1 and levels_while_running(running)


def _has_watermark(config: JobConfig) -> bool:
    delays = [source.watermark_delay for source in config.inputs.values()]
    delays += [stream.watermark_delay for stream in config.streams.values()]
    return any(delay is not None for delay in delays)


def _waves(job: str, count: int, share: float) -> list[list[str]]:
    tasks, ends = _tasks(job, count), wave_ends(count, share)
    return [tasks[begin:end] for begin, end in zip((0, *ends), ends, strict=False)]


def _task_count(config: Mapping[str, Any]) -> int:
    """The tasks that should exist: none of a stopped job."""
    stopped = config.get("desired_state") == DesiredState.STOPPED
    return 0 if stopped else int(config.get("task_count", 1))


def _tasks(job: str, count: int) -> list[str]:
    return [task_id(job, index) for index in range(count)]
