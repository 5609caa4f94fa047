"""What is still known of the tasks of a host that says nothing. Pure.

The host tells the progress of its tasks about once a second. When its JVM hangs nothing comes any more: the tasks stand
still, or nobody knows. What was measured of a moment is unknown then. What was counted so far was true at least.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.model.reports import TaskProgress
from services.task_manager.decide.model import Limits, Observed

_OF_A_MOMENT = (
    "input_rows_per_second",
    "processed_rows_per_second",
    "input_bytes_per_second",
    "backlog_records",
    "backlog_bytes",
    "oldest_unread_seconds",
    "oldest_unread_at_most_seconds",
    "event_time_skew_seconds",
    "busy_share",
    "late_rows_per_second",
    "key_group_rates",
    "key_group_backlogs",
)


def known_progress(
    heard: Mapping[str, TaskProgress], observed: Observed, limits: Limits, now: float
) -> dict[str, TaskProgress]:
    """The progress by task, as far as it is known now. `heard`: as it was heard last."""
    silences = {name: host.silent_seconds(now) for name, host in observed.hosts.items()}
    long = {name: seconds for name, seconds in silences.items() if seconds >= limits.host_silent_seconds}
    if not long:
        return dict(heard)
    silent = {task_id: long[task.host] for task_id, task in observed.tasks.items() if task.host in long}
    return {**heard, **{task_id: _in_silence(heard.get(task_id), seconds) for task_id, seconds in silent.items()}}


def _in_silence(progress: TaskProgress | None, seconds: float) -> TaskProgress:
    unknown = dict.fromkeys(_OF_A_MOMENT)
    return (progress or TaskProgress()).model_copy(update={**unknown, "silent_seconds": round(seconds, 1)})
