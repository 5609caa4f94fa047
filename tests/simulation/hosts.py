"""Simulated Spark hosts behind the Task Manager's `Hosts`: processes with tasks, host tasks and a lease."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.control.errors import BrokenTask, Conflict, LeaseLost, PenstockError
from penstock.model.reports import TaskProgress
from penstock.spark.channel import (
    CancelHostTask,
    Command,
    Event,
    Exit,
    GiveUp,
    Live,
    Loads,
    Prepare,
    Progress,
    Ready,
    Reply,
    RunHostTask,
    Start,
    Stop,
    TaskEnded,
)
from penstock.spark.channel import Lease as LeaseCommand
from penstock.spark.fence import Fenced, Mark
from penstock.spark.host.lease import LeaseWatch
from penstock.tasks.redistribution import (
    CopyReport,
    CopyRequest,
    RedistributionReport,
    RedistributionRequest,
    SealRequest,
)
from services.task_manager.decide.model import HostExit, HostKey
from tests.simulation import threads
from tests.simulation.files import kind_of
from tests.simulation.ground import Ground, Instance
from tests.simulation.packages import breaks, crashes
from tests.simulation.processes import Process

GRACE_SECONDS = 8.0
PAUSE_SECONDS = 3.0
LOOK_SECONDS = 1.0
MEASURE_EVERY_SECONDS = 4.0


class SimulatedHosts:
    """As `services.task_manager.hosts.spark_hosts.SparkHosts`, for one life of a Task Manager."""

    def __init__(self, ground: Ground, supervisor: Process, hosts: list[SimulatedHost]) -> None:
        self._ground = ground
        self._supervisor = supervisor
        self._hosts = hosts

    def start(
        self, name: str, key: HostKey, on_event: Callable[[str, Event], None], on_exit: Callable[[], None]
    ) -> SimulatedHost:
        host = SimulatedHost(self._ground, self._supervisor, name, on_event, on_exit)
        self._hosts[:] = [each for each in self._hosts if not each.process.is_dead]
        self._hosts.append(host)
        return host


class SimulatedHost:
    """One host process. What it says reaches its supervisor in order."""

    def __init__(
        self,
        ground: Ground,
        supervisor: Process,
        name: str,
        on_event: Callable[[str, Event], None],
        on_exit: Callable[[], None],
    ) -> None:
        self.scheduler, self._story, self._files = ground.scheduler, ground.story, ground.files
        self._habits, self._watcher, self._running = ground.habits, ground.watcher, ground.running
        self._terrain = ground.terrain
        self.name = name
        self.process = Process(ground.scheduler, supervisor.machine, name)
        self.instances: dict[str, Instance] = {}
        self._denied: list[Instance] = []
        self.lease_ended_at: float | None = None
        self._how = HostExit("crashed")
        self._exit: HostExit | None = None
        self._is_ending = False
        self._commands: deque[Command] = deque()
        self._said: deque[Event] = deque()
        self._progress: dict[str, TaskProgress] = {}
        self._measured_at = float("-inf")
        self._queues: dict[str, deque[Callable[[], None]]] = {}
        self._cancelled: set[str] = set()
        self._has_commands, self._has_said = threads.Event(self.scheduler), threads.Event(self.scheduler)
        self._lease = LeaseWatch(self.process.machine.clock, self._lease_ran_out)
        self.process.on_death.append(self._on_death)
        supervisor.on_death.append(self._orphaned)
        self.process.begin("serve", self._serve)
        supervisor.begin(f"hear {name}", lambda: self._hear(on_event, on_exit))

    # ---- as the supervisor sees it

    def send(self, command: Command) -> None:
        self._commands.append(command)
        self._has_commands.set()

    def kill(self) -> None:
        self._end(HostExit("killed"))

    def exit(self) -> HostExit | None:
        return self._exit

    def has_lapsed(self) -> bool:
        return self.process.is_dead and self._how.lease_ran_out

    def _hear(self, on_event: Callable[[str, Event], None], on_exit: Callable[[], None]) -> None:
        while True:
            while self._said:
                on_event(self.name, self._said.popleft())
            if self.process.is_dead:
                break
            self._has_said.clear()
            self._has_said.wait()
        self._exit = self._how
        on_exit()

    def _say(self, event: Event) -> None:
        self._said.append(event)
        self._has_said.set()

    def _reply(
        self, command: Command, error: PenstockError | None = None, result: dict[str, Any] | None = None
    ) -> None:
        kind = None if error is None else kind_of(error)
        detail = None if error is None else error.detail
        self._say(Reply(id=command.id, ok=error is None, error=detail, error_kind=kind, result=result or {}))

    # ---- its end

    def _end(self, how: HostExit) -> None:
        self._how = how
        self.scheduler.after(0.0, self.process.kill)

    def crash(self) -> None:
        """Out of memory, say."""
        self._end(HostExit("crashed"))

    def _on_death(self) -> None:
        for instance in [*self.instances.values(), *self._denied]:
            self._over(instance)
        self._has_said.set()

    def _orphaned(self) -> None:
        """The pipe from the supervisor has ended."""
        seconds = self.scheduler.random.random() * 0.5 * self._habits.slow

        def die() -> None:
            if self.process.is_paused:
                self.process.defer(die)
            else:
                self.process.kill()

        self.scheduler.after(seconds, die)

    def _lease_ran_out(self) -> None:
        self._is_ending = True
        self.lease_ended_at = self.scheduler.now
        self._story.tell(self.name, "lease ran out", tasks=len(self.instances))
        self.process.begin("lease-end", self._end_of_lease)

    def _end_of_lease(self) -> None:
        for instance in list(self.instances.values()):
            instance.stop.set()
        end = self.scheduler.now + self.process.to_true_seconds(GRACE_SECONDS)
        while self.instances and self.scheduler.now < end:
            self.scheduler.wait(0.2)
        self._end(HostExit("lease lost", lease_ran_out=True))
        self.scheduler.block()

    # ---- commands

    def _serve(self) -> None:
        self._pass(3.0)
        if self._chance(self._habits.dies):
            self._end(HostExit("crashed"))
            self.scheduler.block()
        self.process.begin("lease", self._lease.watch)
        self._say(Ready(pid=1, jvm_pid=2))
        while True:
            while self._commands:
                self._lease.check()
                self._handle(self._commands.popleft())
            self._has_commands.clear()
            self._has_commands.wait()

    def _handle(self, command: Command) -> None:
        match command:
            case Start():
                self._enqueue(command.spec.task_id, command, self._start)
            case Stop():
                self._enqueue(command.task_id, command, self._stop)
            case Live():
                self._enqueue(command.spec.task_id, command, self._live)
            case RunHostTask(task=task):
                self._cancelled.discard(task.key)
                self._enqueue(task.request.queue, command, self._host_task)
            case CancelHostTask():
                self._cancelled.add(command.key)
                self._reply(command)
            case Prepare() | GiveUp():
                # It only saves time.
                self._reply(command)
            case LeaseCommand():
                self._lease.renew(command.seconds, command.sent_at)
                self._reply(command)
            case Exit():
                self._reply(command)
                self._end(HostExit("asked"))
                self.scheduler.block()

    def _enqueue(self, key: str, command: Any, work: Callable[[Any], dict[str, Any] | None]) -> None:
        """Work of one task in order, of different tasks at the same time."""

        def run() -> None:
            try:
                self._reply(command, result=work(command))
            except PenstockError as error:
                self._reply(command, error)
            queue = self._queues[key]
            queue.popleft()
            if queue:
                self.process.begin(key, queue[0])

        queue = self._queues.setdefault(key, deque())
        queue.append(run)
        if len(queue) == 1:
            self.process.begin(key, run)

    def _require_lease(self) -> None:
        if self._is_ending or not self._lease.may_start():
            raise LeaseLost("this host has no good lease")

    def _start(self, command: Start) -> None:
        self._require_lease()
        instance = Instance(command, self, threads.Event(self.scheduler))
        if instance.task_id in self.instances:
            raise LeaseLost(f"{instance.task_id} runs")
        self._pass(2.0)
        if self._chance(self._habits.breaks):
            raise LeaseLost("the query did not start")
        if breaks(command.spec.config.package.version):
            raise BrokenTask("no module of this name")
        instance.token = self._files.claim(instance.place, command.epoch, self.name, Mark(command.commit_number))
        offsets = self._files.open(instance.place, instance.token)
        instance.follow(command.spec, self.scheduler.now)
        instance.is_stuck = self._chance(self._habits.sticks)
        self.instances[instance.task_id] = instance
        self._running.add(instance)
        self._story.tell(self.name, "runs", task=instance.task_id, token=instance.token, gen=instance.spec.generation)
        self._watcher.began(instance)
        self.process.begin(instance.task_id, lambda: self._run(instance, offsets))
        if self._is_ending:
            instance.stop.set()

    def _run(self, instance: Instance, offsets: dict[int, int]) -> None:
        groups = range(instance.spec.key_groups.lo, instance.spec.key_groups.hi)
        error: PenstockError | None = None
        while not instance.stop.wait(PAUSE_SECONDS * (0.5 + self.scheduler.random.random())) or instance.is_stuck:
            if instance.stop.is_set():
                self.scheduler.wait(PAUSE_SECONDS)
            level_ms = (instance.level_ms or None) if instance.is_held else None
            if instance.gets_no_rows(self._files.is_at_cuts(offsets, groups, level_ms)):
                self._quiet(instance)
                continue
            begun_at = self.scheduler.now
            end, takes_all = self._files.plan(instance.place, offsets, groups, level_ms)
            self._pass(2.0)
            try:
                if crashes(instance.spec.config.package.version):
                    raise LeaseLost("the batch broke")
                self._files.commit(instance.place, instance.token, offsets, end)
            except (Fenced, LeaseLost) as failed:
                error = failed
                break
            instance.planned(begun_at, takes_all)
            self._worked(instance, rows=sum(end.values()) - sum(offsets.values()))
            offsets = end
        self._over(instance)
        instance.ended.set()
        self._story.tell(self.name, "ended", task=instance.task_id, token=instance.token, error=error)
        if error is not None and not instance.is_denied:
            self._say(TaskEnded(task_id=instance.task_id, error=error.detail, error_kind=kind_of(error)))

    def _worked(self, instance: Instance, rows: int) -> None:
        """A batch is done; told soon, with those of other tasks."""
        if instance.is_denied:
            return
        if not self._progress:
            self.scheduler.after(self.scheduler.random.random() * LOOK_SECONDS, self._tell_progress)
        instance.batches += 1
        self._progress[instance.task_id] = TaskProgress(batch_id=instance.batches, input_rows=rows)

    def _quiet(self, instance: Instance) -> None:
        """Held between two batches: told once, as a host does."""
        if instance.is_denied or instance.is_quiet:
            return
        instance.is_quiet = True
        if not self._progress:
            self.scheduler.after(self.scheduler.random.random() * LOOK_SECONDS, self._tell_progress)
        self._progress[instance.task_id] = instance.quiet_progress(self._files.watermark_ms(instance.place))

    def _tell_progress(self) -> None:
        if self.process.is_paused:
            self.process.defer(self._tell_progress)
            return
        told = {task_id: each for task_id, each in self._progress.items() if task_id in self.instances}
        self._progress = {}
        if not self.process.is_dead:
            self._say(Progress(tasks=told))
            self._measure()

    def _measure(self) -> None:
        """What the tasks use at present, at times."""
        if self.instances and self.scheduler.now - self._measured_at >= MEASURE_EVERY_SECONDS:
            self._measured_at = self.scheduler.now
            specs = {task_id: instance.spec for task_id, instance in self.instances.items()}
            self._say(Loads(tasks={name: self._terrain.use(spec.job, spec.index) for name, spec in specs.items()}))

    def _over(self, instance: Instance) -> None:
        instance.is_over = True
        if not instance.is_denied:
            self.instances.pop(instance.task_id, None)
        self._running.remove(instance)

    def _stop(self, command: Stop) -> None:
        instance = self.instances.get(command.task_id)
        if instance is not None and self._chance(self._habits.lies):
            self._deny(instance)
        elif instance is not None:
            instance.stop.set()
            instance.ended.wait()

    def _deny(self, instance: Instance) -> None:
        """The stop is answered, and the query goes on: only the fence is left."""
        instance.is_denied = True
        self._denied = [*(each for each in self._denied if not each.is_over), instance]
        self.instances.pop(instance.task_id, None)
        seconds = self.scheduler.random.uniform(1.0, 60.0)
        self._story.tell(self.name, "lies", task=instance.task_id, seconds=round(seconds, 3))
        self.scheduler.after(seconds, instance.stop.set)

    def _live(self, command: Live) -> None:
        instance = self.instances.get(command.spec.task_id)
        if instance is None:
            raise LeaseLost(f"{command.spec.task_id} does not run")
        instance.follow(command.spec, self.scheduler.now)

    def _host_task(self, command: RunHostTask) -> dict[str, Any]:
        self._require_wanted(command)
        request = command.task.request
        if isinstance(request, CopyRequest):
            return self._copy(request, command)
        if not isinstance(request, RedistributionRequest | SealRequest):
            self._pass(1.0)
            return {}
        self._watcher.works(self, request)
        self._pass(4.0)
        if self._chance(self._habits.breaks):
            raise LeaseLost("the work broke")
        self._require_wanted(command)
        if isinstance(request, SealRequest):
            self._files.seal(request.job, request.layout, self.name)
            return {}
        self._files.redistribute(request, self.name)
        self._watcher.took_checkpoints_over(self, request)
        return RedistributionReport().model_dump(mode="json")

    def _copy(self, request: CopyRequest, command: RunHostTask) -> dict[str, Any]:
        """The tasks of the source run meanwhile; a copy may be lost, or come to nothing."""
        self._pass(4.0)
        if self._chance(self._habits.breaks):
            raise LeaseLost("the copy broke")
        self._require_wanted(command)
        self._files.copy_state(request, self.name)
        self._pass(1.0)
        return CopyReport().model_dump(mode="json")

    def _require_wanted(self, command: RunHostTask) -> None:
        self._require_lease()
        if command.task.key in self._cancelled:
            raise Conflict(f"{command.task.key} was cancelled")

    def _pass(self, seconds: float) -> None:
        self.scheduler.wait(seconds * self._habits.slow * (0.2 + self.scheduler.random.random()))

    def _chance(self, share: float) -> bool:
        return self.scheduler.random.random() < share
