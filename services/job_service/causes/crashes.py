"""Causes that the errors of tasks name. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from penstock.model.alerts import AlertKind
from penstock.model.causes import CauseKind, Certainty
from penstock.model.reports import TaskState
from penstock.model.states import Health
from services.job_service.causes.errors import first_line, has_not_started, kind_of
from services.job_service.causes.facts import Cause, Facts, has_failed, numbers
from services.job_service.causes.writes import newest_of_code, version_of, way_back

JUST_NOW = timedelta(minutes=5)
_WORDS = {
    CauseKind.OUT_OF_MEMORY: (
        "tasks end because they lack memory",
        "`penstock override JOB resources.memory_bytes=...`, or more tasks: `penstock rescale JOB N`. Large state: "
        "`isolation` process, or a job with `state_backend` rocksdb",
    ),
    CauseKind.HOST_ENDED: (
        "the Spark host of the tasks ended or did not start, and they start again on another one",
        "wait a minute; if it comes again, `penstock logs JOB` and the log of the container say why hosts end",
    ),
    CauseKind.KAFKA_LOGIN: (
        "Kafka refuses the login of the hosts",
        "correct the PENSTOCK_KAFKA_* settings of the Task Managers and their files, or the user at Kafka, and restart "
        "the Task Managers where a setting changed",
    ),
    CauseKind.MALFORMED_INPUT: (
        "records do not fit the schema of the input",
        "correct the producer, the file or `value_schema`; on a topic, `malformed` dead_letter keeps them apart",
    ),
    CauseKind.BAD_CODE: (
        "the query, or the package of the job, fails",
        "mend the query or the package, or go back: `penstock history JOB`, `penstock revert JOB LAYER VERSION`",
    ),
    CauseKind.OUTPUT_ERROR: (
        "what the job writes to refuses or does not answer",
        "look at the table, topic or folder of the output and at its server; the tasks go on by themselves once it is "
        "well",
    ),
    CauseKind.INPUT_ERROR: (
        "what the job reads from is missing or does not answer",
        "look at Kafka and at the topics and tables of the inputs: `penstock status`, `penstock topics list`",
    ),
    CauseKind.OTHER_ERROR: ("tasks crash with an error of no known kind", "`penstock logs JOB` has the whole error"),
}
_NO_HOST = (
    "no Spark host can be started for the tasks",
    "mend what its last words name, on the machine of the container or in its settings (Java, memory, disk, "
    "PENSTOCK_SPARK_CONF); a start is tried again by itself. Meanwhile `penstock drain CONTAINER` gives its tasks to "
    "others. The whole log is in the folder `hosts` of the container",
)
_LATE = (
    "`penstock metrics JOB` shows since when. Set a longer `watermark_delay`, or mend the producer that is behind. If "
    "results have no need of these rows, set a higher PENSTOCK_LATE_ALERT_ROWS: services/ALERTS.md"
)
_READ_AGAIN = (
    "grant READ, or find out who deleted the topic: `penstock topics list`, and services/ALERTS.md#input_unreadable "
    "says what a topic that is made again means"
)


@dataclass(frozen=True, slots=True)
class Failed:
    """A task that crashed and has not run well since, with the kind of its error."""

    index: int
    container: str
    kind: CauseKind
    error: str


def failed_tasks(facts: Facts) -> list[Failed]:
    """By index. The error that the container reports counts, else that of the newest crash."""
    crashes = {each.index: each for each in facts.crashes}
    found = []
    for task in facts.tasks:
        known = crashes.get(task.index)
        error = task.error or ("" if known is None else known.error)
        if has_failed(task) or (
            error and facts.has(Health.CRASHING) and known is not None and len(known.crashed_at) > 2
        ):
            kind = kind_of(error, out_of_memory=task.out_of_memory)
            found.append(Failed(task.index, task.container, kind, error))
    return found


def causes_of_errors(facts: Facts) -> Iterator[Cause]:
    """A cause for each kind of error that tasks have now; those of a kind that fewer tasks have are less sure."""
    failed = failed_tasks(facts)
    counts = Counter(each.kind for each in failed)
    for kind, count in counts.items():
        of_kind = [each for each in failed if each.kind is kind]
        is_of_no_host = kind is CauseKind.HOST_ENDED and any(has_not_started(each.error) for each in of_kind)
        summary, advice = _NO_HOST if is_of_no_host else _WORDS[kind]
        certainty, told = _certainty(facts, of_kind, is_most=2 * count >= len(failed)), _evidence(of_kind)
        written = newest_of_code(facts, [each.index for each in of_kind]) if kind is CauseKind.BAD_CODE else None
        if written is not None:
            entry, changed = written
            told += (f"{version_of(facts, entry)}, changed {', '.join(each.words for each in changed[:3])}",)
            advice = f"mend the query or the package, or {way_back(entry)}"
        yield Cause(kind, certainty, summary, told, advice)


def _certainty(facts: Facts, of_kind: list[Failed], *, is_most: bool) -> Certainty:
    """A task that crashes now is what is wrong, whatever its error says. An error of no known kind that is over, as far
    as is known, may have had any cause."""
    if of_kind[0].kind is CauseKind.OTHER_ERROR and not _goes_on(facts, of_kind):
        return Certainty.POSSIBLE
    return Certainty.CERTAIN if facts.has(Health.CRASHING) and is_most else Certainty.LIKELY


def _goes_on(facts: Facts, failed: list[Failed]) -> bool:
    """Whether one of these tasks crashes again and again, waits for its start after a crash, or crashed just now."""
    indices = {each.index for each in failed}
    waits = any(task.index in indices and task.state == TaskState.CRASHED for task in facts.tasks)
    newest = [max(each.crashed_at) for each in facts.crashes if each.index in indices and each.crashed_at]
    return facts.has(Health.CRASHING) or waits or any(facts.moment.now - at <= JUST_NOW for at in newest)


def _evidence(failed: list[Failed]) -> tuple[str, ...]:
    by_error: dict[str, list[int]] = {}
    for each in failed:
        by_error.setdefault(first_line(each.error) or "no error is known", []).append(each.index)
    return tuple(f"task {numbers(indices)}: {error}" for error, indices in by_error.items())[:3]


def causes_of_inputs(facts: Facts) -> Iterator[Cause]:
    """A topic that tasks cannot read on; malformed records that did not stop a task, so that results lack them."""
    if unreadable := _problems_of_tasks(facts, AlertKind.INPUT_UNREADABLE):
        summary = "the topic of an input is gone, or may not be read"
        yield Cause(CauseKind.INPUT_ERROR, Certainty.CERTAIN, summary, tuple(unreadable[:3]), _READ_AGAIN)
    if told := [*_told_of(facts, AlertKind.MALFORMED_RECORDS), *_told_of(facts, AlertKind.NO_EVENT_TIME)]:
        summary, advice = _WORDS[CauseKind.MALFORMED_INPUT]
        yield Cause(CauseKind.MALFORMED_INPUT, Certainty.POSSIBLE, summary, tuple(told[:3]), advice)


def _told_of(facts: Facts, kind: AlertKind) -> list[str]:
    """What running tasks report of one kind, or its alerts, which stay for a while."""
    return _problems_of_tasks(facts, kind) or [alert.message for alert in facts.alerts_of(kind)]


def causes_of_late_rows(facts: Facts) -> Iterator[Cause]:
    """Rows that came after the watermark, so that results lack them, and producers that nobody waits for."""
    if told := _told_of(facts, AlertKind.LATE_ROWS):
        summary = "rows come too late, and results lack them"
        told = [*told[:2], *_problems_of_tasks(facts, AlertKind.NOT_AWAITED)[:1]]
        certainty = Certainty.CERTAIN if facts.is_well else Certainty.POSSIBLE
        yield Cause(CauseKind.LATE_ROWS, certainty, summary, tuple(told), _LATE)


def _problems_of_tasks(facts: Facts, kind: AlertKind) -> list[str]:
    """What running tasks report of one kind, by index."""
    found = {
        task.index: (task.progress or {}).get("input_problems", {}).get(kind.value)
        for task in facts.tasks
        if task.state == TaskState.RUNNING
    }
    return [f"task {index}: {text}" for index, text in sorted(found.items()) if text]


def causes_of_rollouts(facts: Facts) -> Iterator[Cause]:
    """A package that a rollout found bad."""
    if facts.rejected is not None:
        rejected = facts.rejected
        evidence = (
            f"the rollout of {rejected.package} ended at {rejected.task or 'a task'}: {first_line(rejected.error)}"
        )
        advice = "give a package that works: services/ALERTS.md; `penstock rollout show JOB`"
        yield Cause(CauseKind.BAD_CODE, Certainty.CERTAIN, "the new package is not healthy", (evidence,), advice)
