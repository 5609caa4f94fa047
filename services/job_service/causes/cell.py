"""Causes that lie in the cell: processes, room, containers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.control.texts import first_few
from penstock.model.alerts import AlertKind
from penstock.model.causes import CauseKind, Certainty
from penstock.model.health import SILENT, Heard, heard, runs_well
from penstock.model.reports import TaskState
from penstock.model.states import Health, JobState
from penstock.tasks.spec import task_id
from services.job_service.causes.crashes import JUST_NOW, failed_tasks
from services.job_service.causes.errors import ended_host
from services.job_service.causes.facts import Cause, ContainerEvidence, Facts, Gone, is_lagging, numbers, present

if TYPE_CHECKING:
    from services.job_service.store.overview import ReportedTask

STATE_SYNCER, SHARD_MANAGER, AUTO_SCALER = "state_syncer", "shard_manager", "auto_scaler"
_UNPLACED = frozenset(["no_container", "not_open", "too_large"])
_SHORT = frozenset(["capacity_short", "cell_short"])
_CONTAINER_ALERTS = (
    AlertKind.CONTAINER_FAILING,
    AlertKind.CONTAINER_OUTLIER,
    AlertKind.REPORTS_OLD,
    AlertKind.DRAIN_OVERDUE,
    AlertKind.LEADER_REFUSED,
)
_OF_NO_CONTAINER = frozenset([CauseKind.BAD_CODE, CauseKind.MALFORMED_INPUT, CauseKind.HOST_ENDED])
"""Errors that a task has wherever it runs, and the end of a host, which took its own tasks alone."""
_MOSTLY, _SELDOM = 0.5, 0.25
_ENOUGH = 4
_NO_MORE = 1.2
_MOST_TOLD = 5
_PLANNED = frozenset(
    [JobState.PENDING, JobState.WAITING, JobState.RESCALING, JobState.RESTORING, JobState.ROLLING, JobState.DELETING]
)


def causes_of_processes(facts: Facts) -> Iterator[Cause]:
    """A loop or a service that the job needs, and that does nothing."""
    is_behind = facts.job.state in _PLANNED and not facts.verdict.converged
    if is_behind:
        yield from _loop_down(facts, STATE_SYNCER, "nobody carries changes out", Certainty.CERTAIN)
    if _unowned(facts) or facts.has(Health.UNKNOWN):
        yield from _loop_down(facts, SHARD_MANAGER, "nobody gives shards to containers", Certainty.CERTAIN)
    if facts.has(Health.LAGGING):
        yield from _loop_down(facts, AUTO_SCALER, "nobody scales jobs", Certainty.POSSIBLE)
    heard_at, now = facts.moment.heard_at, facts.moment.now
    if facts.has(Health.UNKNOWN, Health.STARTING) and (heard_at is None or now - heard_at > SILENT):
        since = "ever" if heard_at is None else f"since {heard_at:%H:%M:%S} UTC"
        summary = "no container reports" + ("; the Task Service is down" if facts.is_alive else ", and none is alive")
        advice = "start the Task Service" if facts.is_alive else "start the Task Managers"
        evidence = f"no report of any container came {since}"
        beside = "containers send heartbeats" if facts.is_alive else "no container sends heartbeats"
        yield Cause(
            CauseKind.PROCESS_DOWN, Certainty.CERTAIN, summary, (evidence, beside), f"{advice}: `penstock status`"
        )


def _loop_down(facts: Facts, loop: str, meaning: str, certainty: Certainty) -> Iterator[Cause]:
    newest = next((each for each in facts.rounds if each.loop == loop), None)
    leader = next((each for each in facts.leaders if each.loop == loop), None)
    told = []
    if newest is not None and newest.is_stalled:
        told.append(f"{loop} has had {newest.trouble}")
    if leader is not None and leader.seconds_left < 0:
        told.append(f"nobody leads since the lease of {leader.holder} ended {-leader.seconds_left:,.0f} s ago")
    if told and (newest is None or newest.is_stalled):
        advice = f"start the {loop}, or read its log: `penstock status`"
        yield Cause(CauseKind.PROCESS_DOWN, certainty, f"the {loop} is down: {meaning}", tuple(told), advice)


def causes_of_room(facts: Facts) -> Iterator[Cause]:
    """No container takes the tasks, or the job waits for its turn."""
    advice = "add containers, or `penstock uncordon` one: `penstock containers`"
    for alert in facts.alerts_of(AlertKind.SELECTOR_UNMET, AlertKind.SELECTOR_WITHOUT_SLOT):
        fit = "add a container that fits, or change `region` or `container_labels`"
        yield Cause(CauseKind.NO_ROOM, Certainty.CERTAIN, "no container fits the job", (alert.message,), fit)
    unowned = _unowned(facts)
    unplaced = [alert for alert in facts.alerts_of(AlertKind.UNPLACEABLE) if alert.subject in _UNPLACED]
    mine = [alert for alert in unplaced if facts.shards & set(alert.details.get("shards", ()))]
    if unowned and (mine or unplaced or not facts.is_open):
        told = f"the shard of task {numbers(unowned)} has no owner"
        closed = () if facts.is_open else ("no live container takes shards",)
        evidence = (told, *closed, *(alert.message for alert in mine or unplaced))
        yield Cause(CauseKind.NO_ROOM, Certainty.CERTAIN, "no container has room for the tasks", evidence[:3], advice)
    short = [alert for alert in facts.alerts_of(AlertKind.UNPLACEABLE) if alert.subject in _SHORT]
    if short and facts.has(Health.LAGGING):
        evidence = tuple(alert.message for alert in short)
        yield Cause(CauseKind.NO_ROOM, Certainty.POSSIBLE, "the containers of the cell are full", evidence, advice)
    if facts.job.state is JobState.QUEUED:
        summary = "the change waits until fewer jobs are disrupted"
        yield Cause(CauseKind.NO_ROOM, Certainty.LIKELY, summary, (facts.job.detail,), "wait: `penstock watch JOB`")


def _unowned(facts: Facts) -> list[int]:
    """Tasks that nobody reports and whose shard nobody owns."""
    reported = {task.index for task in present(facts)}
    return [index for index, owner in facts.owners.items() if owner is None and index not in reported]


def causes_of_containers(facts: Facts) -> Iterator[Cause]:
    """A container on which tasks do badly, and elsewhere not."""
    for container in facts.containers:
        missing = [] if _began_lately(facts, container) else _missing_on(facts, container.name)
        if container.is_live:
            # It may not have started yet what it took over from one that is gone.
            missing = [index for index in missing if not _givers(facts, index)]
        here = {task.index for task in _told_by(facts, container) if _is_ill(facts, task)}
        ill = sorted(here.union(missing))
        if not ill:
            continue
        found = list(_evidence(facts, container, ill))
        if missing and container.is_live and facts.has(Health.UNKNOWN):
            told = f"no container reports task {numbers(missing)}, which {container.name} is to run"
            found.append((Certainty.LIKELY, told))
        if found:
            certainty = min((each for each, _ in found), key=list(Certainty).index)
            summary, advice = _what_is_wrong(facts, container, ill, certainty, runs=bool(here))
            yield Cause(CauseKind.BAD_CONTAINER, certainty, summary, tuple(text for _, text in found), advice)


def _what_is_wrong(
    facts: Facts, container: ContainerEvidence, ill: list[int], certainty: Certainty, *, runs: bool
) -> tuple[str, str]:
    """The summary and the advice: of one that is gone, that it is."""
    name, tasks = container.name, f"task {numbers(ill)} of the job"
    if not container.is_live:
        told = f"the container {name} is lost: {tasks} {'ran' if runs else 'was to run'} there"
        return told, f"wait: the tasks start on other containers by themselves; {_start_again(name)}"
    if _is_silent_beside_others(facts, _told_by(facts, container)):
        told = f"no report of the container {name} comes: {tasks} ran there"
        wait = "wait: other containers start the tasks when its lease ends, unless it reports again"
        return told, f"{wait}; {_start_again(name)}"
    verb = "is" if certainty is Certainty.CERTAIN else "may be"
    told = f"the container {name} {verb} bad: {tasks} {'runs' if runs else 'is to run'} there"
    return told, f"`penstock drain {name} --reason ...`, then mend or restart it"


def _start_again(name: str) -> str:
    return f"if the process of {name} has ended, read why in its log, and start the process again"


def causes_of_gone_containers(facts: Facts) -> Iterator[Cause]:
    """One cause for all containers that were lost, or came back, after the job's last change, while tasks whose shards
    went to others since start there. Which tasks they had, nobody knows any more: reports of a lost container are
    forgotten."""
    starting = _starting_elsewhere(facts)
    told_already = {each.name for each in facts.containers if not each.is_live}
    givers = {
        index: {gone for gone in _givers(facts, index) if _had_shards(facts, index, gone)} for index in sorted(starting)
    }
    all_givers = {gone for each in givers.values() for gone in each}
    named = sorted(
        (each for each in all_givers if each.name not in told_already), key=lambda each: (each.is_back, each.name)
    )
    if not named:
        return
    certainty = Certainty.POSSIBLE if all(each.is_back for each in named) else Certainty.LIKELY
    names = first_few([each.name for each in named])
    is_one = len(named) == 1
    summary = f"the container{'' if is_one else 's'} {names} {_how_they_went(facts, named)} on other containers"
    heirs = [index for index in givers if not givers[index].isdisjoint(named)]
    told = first_few([f"task {index} on {starting[index]}" for index in heirs], "; ")
    before = names if is_one else "these containers"
    evidence = (f"these tasks do not run well yet; perhaps {before} ran them before: {told}",)
    again = _start_again(names if is_one else "one of them")
    advice = f"wait: the tasks start by themselves; a Spark host may have to start before them; {again}"
    yield Cause(CauseKind.BAD_CONTAINER, certainty, summary, evidence, advice)


def _how_they_went(facts: Facts, named: Sequence[Gone]) -> str:
    """That they are lost, or when they started, and that tasks start for it."""
    first_at = min(each.at for each in named)
    seconds = max(0.0, (facts.moment.now - first_at).total_seconds())
    are_back = {each.is_back for each in named}
    if len(named) == 1:
        lost = f"is lost: nothing was heard of it since {first_at:%H:%M:%S} UTC; its tasks start"
        back = f"started {seconds:,.0f} s ago; if this was a restart, the tasks that it had start"
        return back if named[0].is_back else lost
    if are_back == {False}:
        return f"are lost: of the first of them nothing was heard since {first_at:%H:%M:%S} UTC; their tasks start"
    if are_back == {True}:
        return f"started in the last {seconds:,.0f} s; if these were restarts, the tasks that they had start"
    return f"were lost or started in the last {seconds:,.0f} s; the tasks that they had start"


def _givers(facts: Facts, index: int) -> list[Gone]:
    """The containers that are gone and may have had the shard of a task: its owner got it after that. When one that is
    back went, is unknown: then lately, and after the job's last change, is enough. So it is when nobody knows when the
    owner got the shard."""
    committed_at, moved_at = facts.job.committed_at, facts.moved_at.get(index)
    if committed_at is None:
        return []
    earliest = max(committed_at, facts.moment.now - JUST_NOW)
    return [
        gone
        for gone in facts.gone
        if gone.at > earliest and (moved_at is None or moved_at >= (earliest if gone.is_back else gone.at))
    ]


def _had_shards(facts: Facts, index: int, gone: Gone) -> bool:
    """Whether a container may have had the shard of a task in a former life. The shards of one that is back went to
    others before it came back: what moved later was not its own, as when it was added for the first time."""
    moved_at = facts.moved_at.get(index)
    return not gone.is_back or moved_at is None or moved_at < gone.at


def _starting_elsewhere(facts: Facts) -> dict[int, str]:
    """Tasks that have finished no batch yet on a live container that did not begin lately, with its name. One that
    failed is told by its error, one that is behind by its lag."""
    settled = {each.name for each in facts.containers if each.is_live and not _began_lately(facts, each)}
    found = {index: name for name in settled for index in _missing_on(facts, name)}
    told = {each.index for each in failed_tasks(facts)}
    for task in present(facts):
        starts = task.state in (TaskState.STARTING, TaskState.RUNNING) and not is_lagging(facts, task)
        is_well = runs_well(task.state, (task.progress or {}).get("batch_id"))
        if starts and not is_well and task.index not in told and task.container in settled:
            found[task.index] = task.container
    return found


def causes_of_new_lives(facts: Facts) -> Iterator[Cause]:
    """A container that began after the job's last change, and whose tasks do not run well yet."""
    if facts.job.stopping or not facts.job.wants_tasks:
        return
    for container in facts.containers:
        began_at = container.registered_at
        waiting = _waiting_on(facts, container) if _began_lately(facts, container) else []
        if began_at is None or not waiting:
            continue
        seconds = max(0.0, (facts.moment.now - began_at).total_seconds())
        summary = f"the container {container.name} {_how_it_began(facts, container, seconds)}"
        told = (
            f"task {numbers(waiting)} of the job, which {container.name} is to run, does not run well yet",
            f"{container.name} began at {began_at:%H:%M:%S} UTC, after the last change of the job was committed",
        )
        advice = (
            "wait: they start by themselves; if it comes again, the log of the container's process says why it ends"
        )
        yield Cause(CauseKind.BAD_CONTAINER, Certainty.CERTAIN, summary, told, advice)


def _how_it_began(facts: Facts, container: ContainerEvidence, seconds: float) -> str:
    """What is known of a new life: a task that the life before reported shows that there was one."""
    if any(task.container == container.name and _is_of_former_life(task, container) for task in facts.tasks):
        return (
            f"began anew {seconds:,.0f} s ago: it had ended, was killed or lost its lease; the tasks that ran there "
            "start again"
        )
    return f"began {seconds:,.0f} s ago; tasks that it is to run start there"


def _began_lately(facts: Facts, container: ContainerEvidence) -> bool:
    """Whether the container lives, and its life is new and younger than what the job runs."""
    began_at, committed_at = container.registered_at, facts.job.committed_at
    if began_at is None or committed_at is None or not container.is_live:
        return False
    return committed_at < began_at and facts.moment.now - began_at <= JUST_NOW


def _waiting_on(facts: Facts, container: ContainerEvidence) -> list[int]:
    """The tasks that a new life of a container has to run, and that have finished no batch in it. One that crashed in
    this life is told by its error, one that runs and is behind by its lag."""
    told = {each.index for each in failed_tasks(facts)}.union(_lagging_on(facts, container))
    starting = {
        task.index
        for task in facts.tasks
        if task.container == container.name
        and (_is_of_former_life(task, container) or not runs_well(task.state, (task.progress or {}).get("batch_id")))
    }
    return sorted(starting.union(_missing_on(facts, container.name)) - told)


def _lagging_on(facts: Facts, container: ContainerEvidence) -> list[int]:
    return [task.index for task in _told_by(facts, container) if is_lagging(facts, task)]


def _told_by(facts: Facts, container: ContainerEvidence) -> list[ReportedTask]:
    """The tasks on a container, by a report of its present life."""
    here = (task for task in facts.tasks if task.container == container.name)
    return [task for task in here if not _is_of_former_life(task, container)]


def _is_of_former_life(task: ReportedTask, container: ContainerEvidence) -> bool:
    return container.registered_at is not None and task.reported_at < container.registered_at


def _missing_on(facts: Facts, name: str) -> list[int]:
    """The tasks that a container is to run, and that no container reports."""
    if facts.job.stopping or not facts.job.wants_tasks:
        return []
    reported = {task.index for task in facts.tasks}
    return sorted(index for index, owner in facts.owners.items() if owner == name and index not in reported)


def _is_ill(facts: Facts, task: ReportedTask) -> bool:
    is_failed = any((each.index, each.container) == (task.index, task.container) for each in failed_tasks(facts))
    is_heard = heard(task, facts.moment) is Heard.PRESENT
    return is_failed or _is_silent(task) or not is_heard or is_lagging(facts, task)


def _is_silent(task: ReportedTask) -> bool:
    return (task.progress or {}).get("silent_seconds") is not None


def _evidence(facts: Facts, container: ContainerEvidence, ill: list[int]) -> Iterator[tuple[Certainty, str]]:
    name = container.name
    here = _told_by(facts, container)
    if not container.is_live:
        yield Certainty.CERTAIN, f"{name} is lost: {_where_to(facts, name, ill)}"
    elif _is_silent_beside_others(facts, here):
        told = f"no report of {name} came since {here[0].reported_at:%H:%M:%S} UTC; others report. "
        yield (
            Certainty.CERTAIN,
            told + "Its shards go to others once it was silent for the fail-over time (60 s by default)",
        )
    for alert in facts.alerts_of(*_CONTAINER_ALERTS):
        if alert.subject == name:
            yield Certainty.CERTAIN, f"alert {alert.kind}: {alert.message}"
    silent = [task.index for task in here if _is_silent(task)]
    if silent:
        yield Certainty.CERTAIN, f"the Spark host of task {numbers(silent)} says nothing"
    if _is_outlier(container, facts) and not _went_with_one_host(facts, container):
        told = f"{container.bad_others} of {container.others} tasks of other jobs do badly there too"
        # One host takes all its tasks with it: that alone says little about the container.
        ends = [each.kind is CauseKind.HOST_ENDED for each in failed_tasks(facts) if each.container == name]
        certainty = Certainty.POSSIBLE if ends and all(ends) else Certainty.CERTAIN
        yield certainty, f"{told}, and {facts.elsewhere.bad} of {facts.elsewhere.tasks} elsewhere"
    yield from _beside_own(facts, name, ill)


def _is_silent_beside_others(facts: Facts, here: list[ReportedTask]) -> bool:
    return _others_report(facts) and any(heard(task, facts.moment) is not Heard.PRESENT for task in here)


def _where_to(facts: Facts, name: str, ill: list[int]) -> str:
    """Where the tasks of a lost container go, as far as that is known already."""
    owners = {index: owner for index in ill if (owner := facts.owners.get(index)) not in (None, name)}
    if not owners:
        return "its shards go to other containers"
    told = "; ".join(f"task {index} to {owner}" for index, owner in sorted(owners.items())[:_MOST_TOLD])
    return f"its shards have gone to other containers ({told}), where Spark hosts may have to start first"


def _went_with_one_host(facts: Facts, container: ContainerEvidence) -> bool:
    """Whether all that is bad there ended with one host, with which the job's own tasks there ended too: that host is
    the cause, and the container no second one."""
    own = {ended_host(each.error) for each in failed_tasks(facts) if each.container == container.name}
    return len(own) == 1 and "" not in own and own.issuperset(container.ended_hosts or ("",))


def _others_report(facts: Facts) -> bool:
    heard_at = facts.moment.heard_at
    return heard_at is not None and facts.moment.now - heard_at <= SILENT


def _is_outlier(container: ContainerEvidence, facts: Facts) -> bool:
    """Whether tasks do badly there, and enough others elsewhere do well: of a few nothing can be said."""
    here = container.bad_others / container.others if container.others else 0.0
    others = facts.elsewhere
    return here >= _MOSTLY and others.tasks >= _ENOUGH and others.bad / others.tasks < _SELDOM


def _beside_own(facts: Facts, name: str, ill: list[int]) -> Iterator[tuple[Certainty, str]]:
    """The job's tasks elsewhere do well, with no less to do."""
    elsewhere = [task for task in present(facts) if task.container != name]
    is_only_here = len(ill) == len({task.index for task in facts.tasks if task.container == name})
    if not elsewhere or not is_only_here or any(_is_ill(facts, task) for task in elsewhere):
        return
    told = f"its other tasks, {numbers(task.index for task in elsewhere)}, do well on other containers"
    lagging = [task for task in present(facts) if task.container == name and is_lagging(facts, task)]
    if not lagging:
        if not any(each.container == name and each.kind in _OF_NO_CONTAINER for each in failed_tasks(facts)):
            yield Certainty.POSSIBLE, told
        return
    inputs = [_input(task) for task in elsewhere]
    mean = sum(inputs) / len(inputs)
    most = max(_input(task) for task in lagging)
    if most <= mean * _NO_MORE:
        named = f"{first_few([task_id(facts.job.job, task.index) for task in lagging])} has no more input"
        yield Certainty.LIKELY, f"{told}; {named}: {most:,.0f} rows/s, and theirs is {mean:,.0f}"


def _input(task: ReportedTask) -> float:
    rate = (task.progress or {}).get("input_rows_per_second")
    return 0.0 if rate is None else float(rate)
