"""The kinds of alerts. `services/ALERTS.md` explains each to the people who get them. Pure."""

from __future__ import annotations

from enum import StrEnum


class AlertKind(StrEnum):
    """A new kind needs its rule in `alert_rules.py` and a row in `services/ALERTS.md`: a test compares them."""

    TASK_CRASHING = "task_crashing"
    JOB_LAGGING = "job_lagging"
    QUARANTINED = "quarantined"
    ROLLED_BACK = "rolled_back"
    ROLLBACK_REFUSED = "rollback_refused"
    ROLLOUT_HALTED = "rollout_halted"
    ROLLOUT_LATE = "rollout_late"
    HELD_BACK = "held_back"
    NOT_AWAITED = "not_awaited"
    LATE_ROWS = "late_rows"
    MALFORMED_RECORDS = "malformed_records"
    NO_EVENT_TIME = "no_event_time"
    INPUT_UNREADABLE = "input_unreadable"
    PARTITIONS_NOT_READ = "partitions_not_read"
    KEY_FUNCTION_MISMATCH = "key_function_mismatch"
    EXPIRY_BLOCKED = "expiry_blocked"
    BROKEN_RUNNING_ROW = "broken_running_row"
    SELECTOR_UNMET = "selector_unmet"
    SELECTOR_WITHOUT_SLOT = "selector_without_slot"
    UNPLACEABLE = "unplaceable"
    CONTAINER_FAILING = "container_failing"
    CONTAINER_OUTLIER = "container_outlier"
    DRAIN_OVERDUE = "drain_overdue"
    LEADER_REFUSED = "leader_refused"
    ADMIN_TOKEN_ENDING = "admin_token_ending"
    REPORTS_OLD = "reports_old"
    LOOP_STALLED = "loop_stalled"
    LAG_UNTRIAGED = "lag_untriaged"
    SCALING_FROZEN = "scaling_frozen"
    NOTIFICATIONS_FAILING = "notifications_failing"


INPUT_ALERTS = (
    AlertKind.PARTITIONS_NOT_READ,
    AlertKind.KEY_FUNCTION_MISMATCH,
    AlertKind.MALFORMED_RECORDS,
    AlertKind.NOT_AWAITED,
    AlertKind.NO_EVENT_TIME,
    AlertKind.LATE_ROWS,
    AlertKind.INPUT_UNREADABLE,
)
"""The kinds about the inputs of tasks that run."""
UNREADABLE_INPUT = (
    r"^inputs[^ ]*: (there is no topic |no topic matches |the hosts' account may not read the topic "
    r"|the topic [^ ]+ was deleted and made again)"
)
"""Errors of a task that does not start, since it cannot read a topic. A pattern for Python and for Postgres."""
CONTAINER_ALERTS = (AlertKind.CONTAINER_FAILING, AlertKind.CONTAINER_OUTLIER, AlertKind.DRAIN_OVERDUE)
"""The kinds about one container."""
SCALING_ALERTS = (AlertKind.LAG_UNTRIAGED, AlertKind.SCALING_FROZEN)
"""The kinds of the Auto Scaler."""
