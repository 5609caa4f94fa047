"""The host tasks that the State Syncer asked for, and what became of them. Pure; in memory only.

After a restart the Task Manager knows of none and does again what it is asked again, which is safe. Not thread-safe:
`container.Container` guards it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from penstock.config.model import DesiredState
from penstock.control.errors import Conflict, Unavailable
from penstock.spark.channel import CancelHostTask as CancelCommand
from penstock.spark.channel import HostTaskProgress, Reply
from penstock.spark.channel import RunHostTask as RunCommand
from penstock.tasks.host_request import HostRequest
from penstock.tasks.host_task import POLICIES, HostTask
from penstock.tasks.spec import TaskSpec
from penstock.wire.host_tasks import BROKEN, LEADER_EPOCH, LOST, HostTaskAnswer, HostTaskState
from services.task_manager.decide.actions import (
    Action,
    CancelHostTask,
    EndHost,
    EvacuateHost,
    KillHost,
    RunHostTask,
    StartHost,
)
from services.task_manager.decide.host_choice import may_start, place_for
from services.task_manager.decide.model import HostKey, HostPhase, Limits, Observed
from services.task_manager.membership.heard_leader import HeardLeader
from services.task_manager.specs.spec_cache import SpecCache

KEPT = 1000

MOST_FAILED_STARTS = 3
"""So many hosts of a key failed to start in a row, the last one while a task waited for it: the task is tried on
another container."""

Refusal = Callable[[HostRequest], Conflict | Unavailable | None]


@dataclass(slots=True)
class Entry:
    """One host task. `command`: the id under which `host` was told; 0 before. `answer`: once it is over.
    `failed_before`: how many hosts of the key had failed to start in a row when it began to wait.

    `asked_at`: when the State Syncer asked about it last. `progress`: what its host said of it last. `cancelled`: the
    State Syncer took it back. `revoked`: the host was told so, and claims no more checkpoints.
    """

    task: HostTask
    host_key: HostKey
    host: str = ""
    command: int = 0
    failed_before: float = math.inf
    asked_at: float = 0.0
    progress: str | None = None
    revoked: bool = False
    cancelled: bool = False
    answer: HostTaskAnswer | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether no host has it yet."""
        return self.command == 0 and self.answer is None

    @property
    def is_sent(self) -> bool:
        """Whether a host has it."""
        return self.command != 0 and self.answer is None

    @property
    def has_own_room(self) -> bool:
        """Whether the task does not wait for room that tasks of other kinds take."""
        return POLICIES[self.task.request.kind].own_room


class AcceptedHostTasks:
    """All host tasks by key, the newest last, and the newest leader epoch that was heard."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._never_again: dict[str, None] = {}
        self.leader = HeardLeader("state_syncer")

    @property
    def leader_epoch(self) -> int:
        """The newest that was heard."""
        return self.leader.newest

    def require_newest_leader(self, leader_epoch: int, now: float) -> None:
        """Raises Conflict when a newer leader was heard."""
        if not self.leader.allows(leader_epoch, now):
            detail = f"leader epoch {leader_epoch} is older than {self.leader.newest}, which was heard before"
            raise Conflict(detail, field=LEADER_EPOCH, rule="newest")

    def ask(self, task: HostTask, host_key: HostKey, now: float) -> None:
        """Takes a task in, for a host of the key, unless it is known. The caller has validated it. Raises Conflict when
        it was cancelled."""
        self.require_newest_leader(task.leader_epoch, now)
        if task.key in self._never_again:
            raise Conflict(f"{task.key} was cancelled", field="key", rule="not_cancelled")
        self.leader.follow(task.leader_epoch)
        entry = self._entries.get(task.key)
        if entry is None:
            self._entries[task.key] = Entry(task, host_key, asked_at=now)
            self._forget_oldest()
        else:
            entry.cancelled, entry.asked_at = False, now

    def cancel(self, key: str, leader_epoch: int, now: float) -> None:
        """Drops a task that no host has; marks one that a host has. Raises Conflict when a newer leader was heard."""
        self.require_newest_leader(leader_epoch, now)
        self.leader.follow(leader_epoch)
        self._cancel(key)

    def _cancel(self, key: str) -> None:
        kind, _, _ = key.partition(":")
        if kind in POLICIES and POLICIES[kind].once:
            self._never_again[key] = None
            while len(self._never_again) > KEPT:
                del self._never_again[next(iter(self._never_again))]
        entry = self._entries.get(key)
        if entry is not None and entry.is_sent:
            entry.cancelled = True
        elif entry is not None:
            del self._entries[key]

    def forget(self) -> None:
        """Forgets all answers and what no host has, and marks what a host has: they are of another incarnation of the
        job store, where a key may mean other work. The leader epoch stays, as in `Membership.forget`."""
        self._entries = {key: entry for key, entry in self._entries.items() if entry.is_sent}
        for entry in self._entries.values():
            entry.cancelled = True
        self._never_again = {}

    def key_for(self, task: HostTask, capacity_bytes: float, observed: Observed, limits: Limits) -> HostKey:
        """The key of the host for a task, chosen once. Raises Conflict when there is no memory for work that can be
        left out."""
        if task.key in self._entries:
            return self._entries[task.key].host_key
        waiting = [entry.host_key for entry in self.waiting()]
        found = place_for(task.request, capacity_bytes, observed, limits, waiting)
        if isinstance(found, str):
            raise Conflict(found, field="state_bytes", rule="fits_into_free_memory")
        return found

    def is_over(self, key: str) -> bool:
        """Whether there is nothing to wait for."""
        entry = self._entries.get(key)
        return entry is None or entry.answer is not None

    def answer_and_forget(self, key: str) -> HostTaskAnswer:
        """The answer of a task that nobody asks for again; one that goes on is cancelled."""
        entry = self._entries.get(key)
        if entry is None or entry.answer is None:
            self._cancel(key)
            return HostTaskAnswer(state=HostTaskState.RUNNING)
        del self._entries[key]
        return entry.answer

    def answer(self, key: str) -> HostTaskAnswer:
        """The progress of a task. A failure is forgotten once it was answered, so that the task may be asked for
        again."""
        entry = self._entries.get(key)
        if entry is None or entry.answer is None:
            return HostTaskAnswer(state=HostTaskState.RUNNING, progress=None if entry is None else entry.progress)
        if entry.answer.state is HostTaskState.FAILED:
            del self._entries[key]
        return entry.answer

    def waiting(self) -> Iterator[Entry]:
        """Tasks that no host has been given, the oldest first."""
        return (entry for entry in self._entries.values() if entry.is_waiting)

    def load(self) -> Counter[str]:
        """The number of tasks that hosts have, by host."""
        return Counter(entry.host for entry in self._entries.values() if entry.is_sent)

    def room_taken(self) -> Counter[tuple[str, bool]]:
        """The number of tasks that take room, by host and by `Policy.own_room`.

        A shared host has room beside a task that nobody wants any more: such a task may hang for ever. A host of a
        large state has the memory for one task, so there it counts.
        """
        return Counter(
            (entry.host, entry.has_own_room)
            for entry in self._entries.values()
            if entry.is_sent and (entry.host_key.for_host_tasks or not entry.cancelled)
        )

    def fail_without_host(self, observed: Observed) -> None:
        """What waits for a host whose starts failed again and again is over, and may be tried elsewhere.

        A task that comes after these starts waits for the next one, which backs off. So a short trouble does not use up
        all attempts at a task.
        """
        there = {host.key for host in observed.hosts.values() if host.phase.stays}
        for entry in list(self.waiting()):
            failure = observed.host_failures.get(entry.host_key)
            entry.failed_before = min(entry.failed_before, 0 if failure is None else failure.count)
            if failure is None or failure.count < MOST_FAILED_STARTS or entry.host_key in there:
                continue
            if failure.count > entry.failed_before:
                self._end(entry, _failure(f"{failure.count} hosts did not start: {failure.error}", LOST))

    def _drop_unasked(self, now: float) -> None:
        """Cancels what nobody has asked about for too long: the State Syncer that wanted it ended before it could take
        it back, or its call was lost."""
        for key, entry in list(self._entries.items()):
            limit = POLICIES[entry.task.request.kind].unasked_seconds
            if entry.answer is None and limit is not None and now - entry.asked_at >= limit:
                self._cancel(key)

    def revoke(self, refusal: Refusal, now: float) -> list[CancelHostTask]:
        """Checks the tasks that have not ended again. A task that would be refused now fails, if no host has it.

        Returns the tasks that hosts must be told to give up: refused, cancelled or forgotten ones that a host has.
        """
        self._drop_unasked(now)
        told: list[CancelHostTask] = []
        for key, entry in self._entries.items():
            if entry.answer is not None or entry.revoked:
                continue
            problem = refusal(entry.task.request)
            if entry.is_sent and (entry.cancelled or problem is not None):
                told.append(CancelHostTask(key, entry.host))
            elif problem is not None:
                entry.answer = _failure(problem.detail)
        return told

    def assign(self, action: RunHostTask, command_id: int) -> RunCommand:
        """Assigns a task to a host. Returns the command for the host."""
        entry = self._entries[action.key]
        entry.host, entry.command = action.host, command_id
        return RunCommand(id=command_id, task=entry.task)

    def revoked(self, action: CancelHostTask, command_id: int) -> CancelCommand:
        """Records that a task was revoked. Returns the command that tells its host."""
        self._entries[action.key].revoked = True
        return CancelCommand(id=command_id, key=action.key)

    def awaits(self, command_id: int) -> bool:
        """Whether the reply to a command is one to a host task."""
        return any(entry.command == command_id for entry in self._entries.values() if entry.is_sent)

    def replied(self, reply: Reply) -> None:
        """A host did a task, or could not."""
        for entry in list(self._entries.values()):
            if entry.is_sent and entry.command == reply.id:
                self._end(entry, _answer(entry.task.request, reply))

    def progressed(self, progress: HostTaskProgress) -> None:
        """A host said how far a task is."""
        for entry in self._entries.values():
            if entry.is_sent and entry.command == progress.id:
                entry.progress = progress.text

    def host_exited(self, host: str, reason: str, *, was_late: bool) -> None:
        """The host's tasks are lost; another host may try them again. `was_late`: it was killed for one of them."""
        why = f"it was not done in time, so host {host} was killed" if was_late else f"host {host} ended: {reason}"
        for entry in list(self._entries.values()):
            if entry.is_sent and entry.host == host:
                self._end(entry, _failure(why, LOST))

    def _end(self, entry: Entry, answer: HostTaskAnswer) -> None:
        entry.answer = answer
        if entry.cancelled:
            del self._entries[entry.task.key]

    def _forget_oldest(self) -> None:
        over = [key for key, entry in self._entries.items() if entry.answer is not None]
        for key in over[: max(0, len(self._entries) - KEPT)]:
            del self._entries[key]


def refusal(request: HostRequest, known: SpecCache | None, specs: Iterable[TaskSpec]) -> Conflict | Unavailable | None:
    """Why a request may not be carried out now; `specs` are those of the tasks that are here.

    A late request must not write where tasks run, take checkpoints from tasks that were resumed, or delete files in
    use. Every container has reported a stop before one is asked. A container that was restarted since may know specs
    from before the stop: it can only say that it cannot tell yet.
    """
    job = None if known is None else known.jobs.get(request.job)
    template = None if job is None else job.template
    if request.removes_generation is not None:
        used = {spec.generation for spec in specs if spec.job == request.job}
        if request.removes_generation not in used | ({template.generation} if template else set()):
            return None
        detail = f"generation {request.removes_generation} of {request.job} is in use"
        return Conflict(detail, field="generation", rule="not_in_use")
    if request.fills_generation is not None and template is not None:
        return (
            None if template.generation < request.fills_generation else _used_before(request.job, template.generation)
        )
    if request.writes_generation is None:
        return None
    if known is None or known.commit_number < (request.after_commit or 0):
        return Unavailable(f"the specs here may be older than the stop of {request.job}")
    if template is None:
        return None
    if template.config.desired_state is DesiredState.RUNNING and request.after_commit is None:
        return Unavailable(f"tasks of {request.job} are set to run, or the specs here are older than the stop")
    if template.config.desired_state is DesiredState.RUNNING:
        return Conflict(f"tasks of {request.job} are set to run", field="job", rule="stopped")
    if template.generation < request.writes_generation:
        return None
    return _used_before(request.job, template.generation)


def _used_before(job: str, generation: int) -> Conflict:
    return Conflict(f"{job} is at generation {generation} already", field="target.generation", rule="never_used_before")


def place(
    host_tasks: AcceptedHostTasks, observed: Observed, limits: Limits, decided: Collection[Action], now: float
) -> list[Action]:
    """Assigns waiting host tasks to ready hosts with room, the idlest first; starts a new host where none fits.

    `decided`: the other actions of this tick; a host that they end gets no task.
    """
    hosts, tasks = observed.hosts.values(), observed.load()
    ending = {action.host for action in decided if isinstance(action, EndHost | EvacuateHost | KillHost)}
    there = [host for host in hosts if host.name not in ending and host.phase.stays]
    coming = {action.key for action in decided if isinstance(action, StartHost)}
    taken = host_tasks.room_taken()
    actions: list[Action] = []
    for entry in host_tasks.waiting():
        fitting = [host for host in there if host.key == entry.host_key]
        most = 1 if entry.host_key.for_host_tasks else limits.host_tasks_per_host
        own = entry.has_own_room
        ready = [host.name for host in fitting if host.phase is HostPhase.READY]
        room = [(taken[name, own], tasks[name], name) for name in ready if taken[name, own] < most]
        if room:
            *_, chosen = min(room)
            taken[chosen, own] += 1
            actions.append(RunHostTask(entry.task.key, chosen))
        elif not fitting and entry.host_key not in coming and may_start(entry.host_key, observed, now):
            coming.add(entry.host_key)
            actions.append(StartHost(entry.host_key))
    return actions


def _answer(request: HostRequest, reply: Reply) -> HostTaskAnswer:
    if not reply.ok:
        kind = BROKEN if reply.error_kind == "broken_task" else "retryable"
        return _failure(reply.error or "no reason given", kind)
    if request.Report is None:
        return HostTaskAnswer(state=HostTaskState.DONE)
    try:
        report = request.Report.model_validate(reply.result)
    except ValidationError as error:
        return _failure(f"the host's report cannot be read: {error}")
    return HostTaskAnswer(state=HostTaskState.DONE, report=report.model_dump(mode="json"))


def _failure(error: str, kind: str = "retryable") -> HostTaskAnswer:
    return HostTaskAnswer(state=HostTaskState.FAILED, error=error, error_kind=kind)
