"""What must always hold, looked at after every event, from the outside: nothing here asks the code what it thinks.

A host that is stopped, or went on a moment ago, may still hold tasks that others run by now, and so may one that said
of a task that it has ended: the fence keeps those from committing, so only what they commit counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import orjson

from penstock.model.jobs import JobState
from penstock.tasks.ownership import Owner
from penstock.tasks.redistribution import RedistributionRequest, SealRequest
from penstock.tasks.selectors import selector
from penstock.wire.cluster import ShardOrders
from services.state_syncer.decide.progress import Step
from tests.simulation.expected import Expected
from tests.simulation.ground import Instance, Watcher
from tests.simulation.holds import Holds
from tests.simulation.hosts import SimulatedHost
from tests.simulation.owners import Ownership
from tests.simulation.placements import Placements
from tests.simulation.processes import Machine
from tests.simulation.programs import Surroundings
from tests.simulation.quiet_stops import QuietStops
from tests.simulation.releases import Evidence, Releases
from tests.simulation.rest import not_at_rest

GRACE_AFTER_STOP_SECONDS = 15.0


def _leavers(before: dict[int, Owner], after: dict[int, Owner]) -> bool:
    """Whether a shard left a container."""
    moved = (owner.container not in (None, after[shard].container) for shard, owner in before.items())
    return any(moved)


class Checkers(Watcher):
    """`complaints`: what did not hold, with virtual times."""

    def __init__(self, around: Surroundings, machines: dict[str, Machine]) -> None:
        self.complaints: list[str] = []
        self.double_run_seconds = 0.0
        self._around = around
        self._memory = around.database.memory
        self._tasks = around.ground.running
        self.expected = Expected(self._memory)
        self._releases = Releases(self._memory)
        self._evidence = Evidence(self._memory)
        rules = around.ground.terrain.placement
        self.placements = Placements(
            self._memory, self.complain, budget=rules["move_budget"], most_in_flight=rules["moves_in_flight"]
        )
        self.ownership = Ownership(around, machines, self.placements.has_no_place)
        self._quiet_stops = QuietStops(around)
        self._holds = Holds(around, machines)
        self._assignment = 0
        self._owners = dict(self._memory.owners)
        self._sharding = self._memory.facts.sharding
        self._commit = 0
        self._running = dict(self._memory.running)
        self._attempts: dict[tuple[str, int], str] = {}

    def complain(self, what: str) -> None:
        """Notes it in the story, too."""
        self._around.ground.story.tell("checker", f"VIOLATION: {what}")
        self.complaints.append(f"{self._around.ground.scheduler.now:.3f}: {what}")

    def _complain_of_all(self, found: Iterable[str]) -> None:
        for what in found:
            self.complain(what)

    # ---- told by hosts

    def began(self, instance: Instance) -> None:
        """A task is in one place, of one generation, and runs what was expected."""
        self._releases.began(instance.spec)
        self._holds.began(instance.spec.job, instance.spec.index)
        config, here, terrain = instance.spec.config, instance.host.process.machine.name, self._around.ground.terrain
        if config.region not in (None, terrain.region(here)):
            self.complain(f"{instance.task_id} asks for region {config.region} and runs on {here}")
        if not config.container_labels.items() <= terrain.labels(here).items():
            self.complain(f"{instance.task_id} asks for {config.container_labels} and runs on {here}")
        if not self.expected.was_of_task(instance.spec.job, instance.spec.config):
            self.complain(f"{instance.task_id} runs on {instance.host.name} what was never expected")
        self._look_at_stop(instance)
        for other in self._tasks.of(instance.spec.job):
            if other is instance or self._comes_too_late(instance, other):
                continue
            if other.task_id == instance.task_id and not self._is_zombie(other):
                self.complain(f"{instance.task_id} begins on {instance.host.name} and runs on {other.host.name}")
                self.double_run_seconds += 1.0
            if other.spec.generation != instance.spec.generation and self._meets(other, instance):
                self.complain(f"{instance.place} begins and {other.place} runs on {other.host.name}")

    def _look_at_stop(self, instance: Instance) -> None:
        """No task begins of a job that was seen to have stopped: to be deleted, or for work on its checkpoints."""
        job = instance.spec.job
        is_worked_on = self._memory.plans.get(job, {}).get("step") in (Step.REDISTRIBUTE.value, Step.SEAL.value)
        if (is_worked_on or job not in self._memory.running) and not self._is_zombie(instance):
            self.complain(f"{instance.place} begins on {instance.host.name}, and {job} has stopped everywhere")

    def _meets(self, other: Instance, instance: Instance) -> bool:
        """Whether another generation could still commit. The last batch of a job that was deleted meanwhile may, on a
        host that was stopped: deletion seals nothing, and a job that is made again goes on from nothing of it."""
        return self._can_commit(other) and (self._is_same_life(instance, other) or not self._is_zombie(other))

    def _comes_too_late(self, instance: Instance, other: Instance) -> bool:
        """Whether a task begins, for a moment, on a host that stood still in the middle of its start, and is of a job
        that was deleted and made again meanwhile."""
        return self._is_zombie(instance) and not self._is_same_life(instance, other)

    def _is_same_life(self, instance: Instance, other: Instance) -> bool:
        files, job = self._around.ground.files, instance.spec.job
        return files.line(job, other.spec.generation) == files.line(job, instance.spec.generation)

    def works(self, host: SimulatedHost, request: RedistributionRequest | SealRequest) -> None:
        """No task of a job runs while its checkpoints are worked on, but for what an old request asks for.

        A seal works on its own generation only: one that is late does no harm to a later generation's tasks."""
        if isinstance(request, RedistributionRequest):
            self._look_at_attempt(host.process.machine.name, request.job, request.target.generation)
        plan = self._memory.plans.get(request.job)
        if plan is None or (
            isinstance(request, RedistributionRequest) and plan.get("generation") != request.target.generation
        ):
            return
        for other in self._tasks.of(request.job):
            is_worked_on = isinstance(request, RedistributionRequest) or other.spec.generation == request.key_number
            if is_worked_on and not self._is_zombie(other):
                self.complain(f"{host.name} works on {request.job} and {other.place} runs on {other.host.name}")

    def took_checkpoints_over(self, host: SimulatedHost, request: RedistributionRequest) -> None:
        """A redistribution that comes late takes nothing from tasks that were resumed."""
        for other in self._tasks.of(request.job):
            same = other.spec.generation == request.source.generation
            if same and request.stopped_at is not None and other.commit_number > request.stopped_at:
                self.complain(f"{host.name} takes {other.place} from a task that started after the stop")

    def _look_at_attempt(self, container: str, job: str, generation: int) -> None:
        first = self._attempts.setdefault((job, generation), container)
        if first != container:
            self.complain(f"{first} and {container} both write generation {generation} of {job}")

    # ---- told by Task Managers

    def took_specs(self, container: str, before: int, after: int) -> None:
        """No Task Manager takes an older commit than it has acted on, whoever answers."""
        if after < before:
            self.complain(f"{container} goes back from commit {before} to {after}")

    # ---- told by Shard Managers

    def took_over(self) -> None:
        self.placements.took_over()

    def ordered(self, verb: str, order: ShardOrders) -> None:
        self.placements.ordered(verb, order)

    # ---- after every event

    def look(self) -> None:
        """What the last event wrote."""
        self.expected.look()
        for what in self._evidence.look():
            self.complain(what)
        now = self._around.ground.scheduler.now
        for watched in (self.ownership, self._holds):
            if now >= watched.due_at:
                self._complain_of_all(watched.look(now))
        self._quiet_stops.look()
        counters = self._memory.counters
        if counters["assignment"] != self._assignment:
            self._assignment = counters["assignment"]
            self._look_at_owners()
        if counters["running_commit"] != self._commit:
            self._commit = counters["running_commit"]
            self._look_at_running()

    def _look_at_owners(self) -> None:
        """A task does not run where it is not to be any more, whatever the shards are called by now."""
        before, self._owners = self._owners, dict(self._memory.owners)
        sharding, self._sharding = self._sharding, self._memory.facts.sharding
        if sharding == self._sharding and not _leavers(before, self._owners):
            return
        for instance in self._tasks.all():
            config, here = instance.spec.config, instance.host.process.machine.name
            asked = selector(config.region, config.container_labels)
            old = sharding.shard_of(instance.task_id, asked)
            new = self._sharding.shard_of(instance.task_id, asked)
            if old is None or new is None or before[old].container != here or self._owners[new].container == here:
                continue
            if not self._is_zombie(instance):
                self.complain(f"shard {old} leaves {here} as {new}, where {instance.task_id} runs")

    def _look_at_running(self) -> None:
        before, self._running = self._running, dict(self._memory.running)
        for job, entry in self._running.items():
            old = before.get(job)
            if old is not entry:
                self._look_at_commit(job, orjson.loads(entry.row.config), entry.row.stopping)
                self._complain_of_all(self._quiet_stops.committed(job, entry))
            if old is None or old is entry:
                continue
            if old.row.generation != entry.row.generation:
                self._look_at_generation(job, old.row.generation, entry.row.generation)
            if entry.row.revision < old.row.revision:
                self.complain(f"{job} goes back from revision {old.row.revision} to {entry.row.revision}")
            self._complain_of_all(self._releases.committed(job, old, entry))
        for job in before.keys() - self._running.keys():
            self._look_at_the_forgotten(job)
            self._complain_of_all(self._quiet_stops.committed(job, None))
            self._releases.forget(job)

    def _look_at_commit(self, job: str, config: dict[str, object], stopping: bool) -> None:
        is_stop_of = {"desired_state": "running"} if stopping else {}
        if not self.expected.was(job, config) and not self.expected.was(job, {**config, **is_stop_of}):
            self.complain(f"the running configuration of {job} was never expected: {config}")

    def _look_at_generation(self, job: str, before: int, after: int) -> None:
        if after < before:
            self.complain(f"{job} goes back from generation {before} to {after}")
        elif (job, after) not in self._around.ground.files.lines:
            self.complain(f"generation {after} of {job} was never written")

    def _look_at_the_forgotten(self, job: str) -> None:
        for instance in self._tasks.of(job):
            if not self._is_zombie(instance):
                self.complain(f"{job} is forgotten and {instance.place} runs on {instance.host.name}")

    # ---- in the end

    def not_converged(self) -> Iterator[str]:
        """What is not yet as expected."""
        yield from (f"shard {shard} has no owner" for shard in self._without_owner())
        facts = self._memory.facts
        if facts.sharding.count != facts.wanted:
            yield f"there are {facts.sharding.count} shards, asked for were {facts.wanted}"
        for job, expected in sorted(self.expected.newest.items()):
            yield from self._of_job(job, expected)
        if not self.placements.is_done():
            yield "shards are not where the newest placement wants them for good"
            return
        if not self._around.ground.terrain.is_large:
            yield from not_at_rest(self._memory, self._around.ground.terrain.placement["move_budget"])

    def _without_owner(self) -> list[int]:
        live = {name for name, member in self._memory.members.items() if member.live}
        return [shard for shard, owner in sorted(self._memory.owners.items()) if owner.container not in live]

    def _of_job(self, job: str, expected: dict[str, object]) -> Iterator[str]:
        entry, state = self._memory.running.get(job), self._memory.sync_states.get(job)
        if entry is None or state is None:
            yield f"{job} is not there"
            return
        if state.state != JobState.SYNCED.value or job in self._memory.plans or entry.row.stopping:
            yield f"{job} is {state.state}: {state.detail}"
        if orjson.loads(entry.row.config) != expected:
            yield f"{job} does not run what was asked for last"
        wanted = {
            (index, entry.row.generation, entry.row.revision) for index in range(int(str(expected["task_count"])))
        }
        running = [each for each in self._tasks.of(job) if self._can_commit(each)]
        found = sorted((each.spec.index, each.spec.generation) for each in running)
        if found != sorted((index, generation) for index, generation, _ in wanted):
            yield f"{job} runs {found}, expected {sorted(wanted)}"
        held = sorted(each.task_id for each in running if each.is_held)
        if held:
            yield f"{held} take no rows, and no rescale is under way"

    def _can_commit(self, instance: Instance) -> bool:
        is_here = not instance.host.process.is_dead and not instance.is_over
        return is_here and self._around.ground.files.is_owner(instance.place, instance.token)

    def _is_zombie(self, instance: Instance) -> bool:
        now, host = self._around.ground.scheduler.now, instance.host
        return instance.is_denied or host.process.is_paused or now - host.process.went_on_at < GRACE_AFTER_STOP_SECONDS
