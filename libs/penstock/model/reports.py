"""What containers report about their tasks: sent to the Task Service, and stored by it. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_serializer,
)

from penstock.config.declare import Carried, Counted, Incarnation, Name
from penstock.control.texts import Text

_GREATEST_INTEGER, _GREATEST_BIGINT = 2**31 - 1, 2**63 - 1


def _or_unknown(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    try:
        return validate(value)
    except ValidationError:
        return None


def _is_default(value: Any) -> bool:
    """0 is no default: it is known."""
    return value is None or value is False


OrUnknown = WrapValidator(_or_unknown)
"""None, which is unknown, for a value that is not valid or that no column holds: what a query measured must not refuse
the report that it is in."""
Whole = Annotated[Annotated[int, Field(ge=-_GREATEST_BIGINT, le=_GREATEST_BIGINT)] | None, OrUnknown]
Real = Annotated[float | None, OrUnknown]
Count = Annotated[int, Field(ge=0, le=_GREATEST_INTEGER)]


class TaskState(StrEnum):
    """A task's state in its container. HELD: not started, because the container does not match the job's selector."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    CRASHED = "crashed"
    HELD = "held"


class ErrorClass(StrEnum):
    """Why a task ended by itself, or did not start. CONFIGURATION: it cannot run as it is configured. FENCED: another
    owner of its checkpoint has taken over. HOST: its Spark host ended or did not start. OTHER: all else, such as an
    exception of its query or of a system that it reads from or writes to.
    """

    OUT_OF_MEMORY = "out_of_memory"
    CONFIGURATION = "configuration"
    FENCED = "fenced"
    HOST = "host"
    OTHER = "other"


class KeyGroupRates(Carried):
    """Records per second into each of a task's key groups, from `first` on, over the last `seconds`.

    Offsets are counted, so markers of transactions count too. Topics of several inputs are summed.
    """

    first: int
    records_per_second: tuple[float, ...]
    seconds: float


_NEW_FIELDS = frozenset(
    [
        *("quiesced", "level_ms", "watermark_ms", "caught_up", "silent_seconds"),
        *("busy_share", "late_rows_per_second", "phase_seconds", "key_group_backlogs"),
        *("oldest_unread_at_most_seconds", "level_records"),
    ]
)


class TaskProgress(Carried):
    """Measurements of a task's last micro-batches; None is unknown, never zero.

    Rates are those of the last minute: `input_rows_per_second` by the clock, `processed_rows_per_second` while batches
    ran. `busy_share`: of that minute, the share in which batches ran. `late_rows_per_second`: by the clock; None for a
    query that drops no late rows.
    `processed_rows_per_second` is unknown while the query or its host warms up. The oldest record that is not read has
    waited for `oldest_unread_seconds` at least, and for `oldest_unread_at_most_seconds` at most.
    `malformed_records`: since the task's start. `input_problems`: what is wrong with the inputs now, by kind of alert
    (`penstock.model.alerts.INPUT_ALERTS`).
    `held_back_by`: the producer (`job/index/generation`) of an input that the watermark waits for, and since when it
    has said nothing; None when it waits for none.
    `silent_seconds`: how long the Spark host has said nothing, once that is long; None while the host is heard. Then
    rates and backlog are unknown, and the other measurements are the last ones.
    """

    batch_id: Whole = None
    batch_seconds: Real = None
    input_rows: Whole = None
    input_rows_per_second: Real = None
    processed_rows_per_second: Real = None
    input_bytes_per_second: Real = None
    backlog_records: Whole = None
    backlog_bytes: Whole = None
    oldest_unread_seconds: Real = None
    watermark: Text | None = None
    state_rows: Whole = None
    state_memory_bytes: Whole = None
    late_rows_dropped: Whole = None
    event_time_skew_seconds: Real = None
    malformed_records: Whole = None
    input_problems: dict[Text, Text] = Field(default_factory=dict)
    held_back_by: Text | None = None
    held_back_seconds: Real = None
    offsets: dict[Text, dict[Text, int]] = Field(default_factory=dict)
    key_group_rates: Annotated[KeyGroupRates | None, OrUnknown] = None
    observed_at: Text | None = None
    quiesced: bool = False
    """Whether the task takes no more rows and has finished its last batch. Only then the next three are known."""
    level_ms: Whole = None
    """That of the order which it answers (`TaskTemplate.level_ms`). An answer to an order without one has no watermark:
    a Task Service of the release before would refuse the field."""
    watermark_ms: Whole = None
    """Its watermark after its last batch, in milliseconds since 1970; 0 without one. None when it was not asked for, or
    when the task cannot be brought to a watermark exactly: it is levelled after the stop."""
    caught_up: bool = False
    """Whether it has read all rows that were there about when it got the order (Java: `QuiesceOrder.isCaughtUp`)."""
    silent_seconds: Real = None
    busy_share: Real = None
    late_rows_per_second: Real = None
    phase_seconds: Annotated[dict[Text, float] | None, OrUnknown] = None
    """Of the last batch, the phases that took a good part of it, by Spark's names (`addBatch`: the work itself)."""
    key_group_backlogs: Annotated[dict[Text, int] | None, OrUnknown] = None
    """Rows that are not read yet by the number of their key group. Key groups that are not named have none."""
    oldest_unread_at_most_seconds: Real = None
    level_records: Whole = None
    """How many records it reads on in all to come to the level of its order. None before its host has found that, once
    it has read them, and of a stream, which does not say it."""

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A Task Service of the release before refuses a field that it does not know."""
        fields: dict[str, Any] = handler(self)
        return {name: each for name, each in fields.items() if name not in _NEW_FIELDS or not _is_default(each)}


class TaskReport(Carried):
    """One task as its container runs it. `epoch` is the assignment epoch under which it was started.

    `load`: its use by dimension (`penstock.tasks.dimensions`); a missing dimension is unknown. None: unchanged since
    the last report that had a load.
    """

    job: Name
    index: Count
    state: TaskState
    revision: Counted
    generation: Counted
    restarts: Count
    epoch: Counted
    crashes: Count = 0
    error: Text | None = None
    error_class: Text | None = Field(None, exclude_if=_is_default)
    """An `ErrorClass`, or one that a newer release knows; None: not told."""
    out_of_memory: bool = False
    progress: TaskProgress | None = None
    load: Annotated[dict[Text, float] | None, OrUnknown] = None


class TaskReportBatch(Carried):
    """ALL tasks of a container at one moment: a task not listed does not run there.

    `commit_number` is the newest commit of the running table that the container has applied, `version` the newest
    assignment version. A missing task is evidence of a stop only if both are new enough.
    """

    container: Name
    incarnation: Incarnation
    commit_number: Counted
    version: Counted
    tasks: tuple[TaskReport, ...]


class TaskReportChanges(Carried):
    """What changed in a container since its report with the number `after`: a task that is neither in `tasks` nor in
    `ended` is as that report left it. Without either: nothing new.

    `number`: each report of an incarnation has a higher one than the report before. `ended`: job and index of the tasks
    that no longer run there. It counts only on the report `after`; on any other it says nothing about any task.
    `may_wait`: it only says that the container is there as it was, so it may be stored a moment later with others.
    """

    container: Name
    incarnation: Incarnation
    commit_number: Counted
    version: Counted
    number: int = Field(ge=1, le=_GREATEST_BIGINT)
    after: int = Field(ge=1, le=_GREATEST_BIGINT)
    tasks: tuple[TaskReport, ...] = ()
    ended: tuple[tuple[Text, Count], ...] = ()
    may_wait: bool = False

    @property
    def has_news(self) -> bool:
        """Whether any task changed."""
        return bool(self.tasks or self.ended)
