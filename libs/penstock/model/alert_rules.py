"""The rules of alerts as data: about what each kind is, when it is raised, how grave it is, where its runbook is. Pure.

Code that raises an alert reads its limit here, or from the setting that is named. `services/ALERTS.md` has a row for
each kind, which is its runbook; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from penstock.model.alerts import AlertKind
from penstock.tasks.shards import SLOTS

RUNBOOKS = "services/ALERTS.md"


class Severity(StrEnum):
    """`page`: somebody must look now. `ticket`: in working hours."""

    PAGE = "page"
    TICKET = "ticket"


class About(StrEnum):
    """What the subject of an alert is. A task and a layer begin with their job: `job/...`."""

    JOB = "job"
    PART_OF_JOB = "part_of_job"
    CONTAINER = "container"
    CELL = "cell"


class Limit(NamedTuple):
    """What is compared: `value` in `unit`, or what a setting says: `PENSTOCK_...` of a process, or a field of the job.
    With both, `value` counts what the setting measures."""

    value: float | None = None
    unit: str = ""
    setting: str | None = None


class AlertRule(NamedTuple):
    """`condition`: when the alert is raised, in words. `limit`: None where nothing is measured."""

    about: About
    severity: Severity
    condition: str
    limit: Limit | None = None


_JOB, _PART, _CONTAINER, _CELL = About.JOB, About.PART_OF_JOB, About.CONTAINER, About.CELL
_PAGE, _TICKET = Severity.PAGE, Severity.TICKET
_OF_JOBS = {
    AlertKind.TASK_CRASHING: AlertRule(
        _JOB, _PAGE, "a task has crashed so often, each time soon after the crash before", Limit(3, "crashes")
    ),
    AlertKind.JOB_LAGGING: AlertRule(
        _JOB,
        _PAGE,
        "in each of so many minutes a task was behind by more than the field",
        Limit(3, "minutes", "slo.max_lag_seconds"),
    ),
    AlertKind.LAG_UNTRIAGED: AlertRule(
        _JOB, _PAGE, "the job lags, and its size is not the cause", Limit(setting="slo.max_lag_seconds")
    ),
    AlertKind.QUARANTINED: AlertRule(_JOB, _PAGE, "a change has failed so often in a row", Limit(5, "failures")),
    AlertKind.ROLLED_BACK: AlertRule(_JOB, _TICKET, "a rollout was taken back to the package before"),
    AlertKind.ROLLBACK_REFUSED: AlertRule(_JOB, _PAGE, "the package before cannot be written"),
    AlertKind.ROLLOUT_LATE: AlertRule(
        _JOB,
        _TICKET,
        "for so long nobody knows whether tasks with the new package are well",
        Limit(setting="PENSTOCK_STATE_SYNCER_UNHEALTHY_SECONDS"),
    ),
    AlertKind.ROLLOUT_HALTED: AlertRule(_JOB, _PAGE, "a new package is not well, and there is none to go back to"),
    AlertKind.HELD_BACK: AlertRule(
        _PART,
        _TICKET,
        "a task has waited for a silent producer of its input: so long for its health, and longer for the alert "
        "(PENSTOCK_HELD_BACK_ALERT_SECONDS)",
        Limit(60, "seconds"),
    ),
    AlertKind.NOT_AWAITED: AlertRule(
        _JOB,
        _TICKET,
        "a task no longer waits for a producer of its input that comes no further in event time, or cannot wait for "
        "one",
        Limit(setting="completeness_wait_seconds"),
    ),
    AlertKind.LATE_ROWS: AlertRule(
        _JOB,
        _TICKET,
        "a task has dropped so many late rows in five minutes, and the job does not declare `drop_late`",
        Limit(setting="PENSTOCK_LATE_ALERT_ROWS"),
    ),
    AlertKind.MALFORMED_RECORDS: AlertRule(
        _JOB,
        _TICKET,
        "in so long a time a larger share of an input's records than the field, or so many as "
        "`malformed_alert_records`, were malformed",
        Limit(300, "seconds", "inputs.*.malformed_alert_share"),
    ),
    AlertKind.NO_EVENT_TIME: AlertRule(
        _JOB,
        _PAGE,
        "no record of an input with `event_time_column` had an event time, in five minutes with so many of them, and "
        "the query goes by it",
        Limit(8, "records"),
    ),
    AlertKind.INPUT_UNREADABLE: AlertRule(
        _JOB, _PAGE, "the topic of an input is not there, was made again, or may not be read"
    ),
    AlertKind.PARTITIONS_NOT_READ: AlertRule(
        _JOB, _PAGE, "an input has partitions that no task reads", Limit(setting="inputs.*.key_groups")
    ),
    AlertKind.KEY_FUNCTION_MISMATCH: AlertRule(_JOB, _PAGE, "keys are in other partitions than `key_function` says"),
    AlertKind.EXPIRY_BLOCKED: AlertRule(
        _PART, _TICKET, "an expired layer stays, since without it the job is not valid or writes rows twice"
    ),
    AlertKind.BROKEN_RUNNING_ROW: AlertRule(_JOB, _PAGE, "a running configuration cannot be read"),
    AlertKind.SELECTOR_UNMET: AlertRule(_JOB, _PAGE, "no container offers what the job asks for"),
}
_OF_THE_REST = {
    AlertKind.SELECTOR_WITHOUT_SLOT: AlertRule(
        _CELL, _PAGE, "jobs ask for a selector, and all slots are taken", Limit(SLOTS, "selectors")
    ),
    AlertKind.UNPLACEABLE: AlertRule(
        _CELL,
        _PAGE,
        "shards have no container, or none with room, of which the setting is kept free",
        Limit(setting="PENSTOCK_PLACEMENT_HEADROOM"),
    ),
    AlertKind.CONTAINER_FAILING: AlertRule(
        _CONTAINER,
        _TICKET,
        "a container that sends heartbeats has not taken its shards for so long",
        Limit(setting="PENSTOCK_ADD_LIMIT_SECONDS"),
    ),
    AlertKind.CONTAINER_OUTLIER: AlertRule(
        _CONTAINER,
        _TICKET,
        "so many times the expected number of tasks fail, or starts take so long",
        Limit(3, "times"),
    ),
    AlertKind.DRAIN_OVERDUE: AlertRule(_CONTAINER, _TICKET, "the limit of a drain has passed, and shards are left"),
    AlertKind.LEADER_REFUSED: AlertRule(_CONTAINER, _PAGE, "a container takes its leader for a former one"),
    AlertKind.ADMIN_TOKEN_ENDING: AlertRule(
        _CELL,
        _TICKET,
        "the last admin token ends within this time",
        Limit(setting="PENSTOCK_JOB_SERVICE_ADMIN_WARNING_SECONDS"),
    ),
    AlertKind.REPORTS_OLD: AlertRule(
        _CONTAINER,
        _PAGE,
        "a container sends heartbeats, and its newest report is older than this",
        Limit(setting="PENSTOCK_REPORTS_OLD_SECONDS"),
    ),
    AlertKind.LOOP_STALLED: AlertRule(_CELL, _PAGE, "a loop had no good round for so long", Limit(2.5, "periods")),
    AlertKind.SCALING_FROZEN: AlertRule(
        _CELL,
        _PAGE,
        "more than a share of the jobs lags, or is not measured (the policy's `breaker_...`)",
        Limit(setting="PENSTOCK_SCALER_POLICY"),
    ),
    AlertKind.NOTIFICATIONS_FAILING: AlertRule(
        _CELL, _PAGE, "a webhook did not take a message so often", Limit(5, "attempts")
    ),
}
RULES: Mapping[AlertKind, AlertRule] = MappingProxyType(_OF_JOBS | _OF_THE_REST)


def limit_of(kind: AlertKind) -> float:
    """The number of a rule that has one. Raises ValueError for a rule without: its limit is a setting."""
    limit = RULES[kind].limit
    if limit is None or limit.value is None:
        raise ValueError(f"{kind} has no limit of its own")
    return limit.value


def rule_of(kind: str) -> AlertRule | None:
    """The rule of a stored kind; None for one of another release."""
    return RULES[AlertKind(kind)] if kind in RULES else None


def severity_of(kind: str) -> Severity:
    """How grave an alert is. One of another release is one to look at now."""
    rule = rule_of(kind)
    return Severity.PAGE if rule is None else rule.severity


def runbook_of(kind: str, base_url: str = "") -> str:
    """Where to read what to do: the page with the row of the kind. `base_url`: where people read this repository's
    files; empty: only the path."""
    path = f"{RUNBOOKS}#{kind}"
    return f"{base_url.rstrip('/')}/{path}" if base_url else path


MALFORMED_WINDOW_SECONDS = limit_of(AlertKind.MALFORMED_RECORDS)
"""Malformed records of so long ago are told. A task that starts again knows none of before: their alert stays."""
