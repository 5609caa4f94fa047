"""What goes wrong, when and for how long: all drawn from the seed. At the end of the faults all of it is put right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.control.errors import Unavailable
from penstock.identity.roles import Caller, Role
from penstock.model.reports import TaskReportBatch
from penstock.wire.task_client import TaskServiceClient
from tests.simulation.network import DATABASE, Known, Weather
from tests.simulation.processes import Machine, Process
from tests.simulation.store import Trouble

if TYPE_CHECKING:
    from tests.simulation.ground import Instance
    from tests.simulation.world import World

LOST_SECONDS = (62.0, 75.0)
"""For so long a container is away that is failed over before it comes back."""
FORGERY = "forge a report"
QUIESCING = "kill while tasks quiesce"
LOST_QUIESCING = "lose a container while tasks quiesce"
RARE = {FORGERY, QUIESCING, LOST_QUIESCING}
"""Only where a mix asks for it: the recorded seeds of all other runs stay what they are."""
LOOK_SECONDS = 0.2
BEHIND_SHARE = 0.5
"""Of the seeds with all kinds of faults."""


@dataclass(frozen=True)
class Mix:
    """What may go wrong: `kinds` by name, all when empty, `at` machines whose names begin so, on average every
    `gap_seconds`."""

    gap_seconds: float = 10.0
    kinds: tuple[str, ...] = ()
    at: str | tuple[str, ...] = ""


class Faults:
    """Begins something every few seconds until it is stopped."""

    def __init__(self, world: World, mix: Mix) -> None:
        self._world = world
        self._random = world.scheduler.random
        self._mix = mix
        self._is_over = False
        self._lies_in_wait = False
        kinds: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "kill at a call": self._kill_at_a_call,
            "stop": self._stop,
            "stop a machine": self._stop_a_machine,
            "switch off": self._switch_off,
            "cut": self._cut,
            "cut a service": self._cut_a_service,
            "weather": self._bad_weather,
            "store away": self._store_away,
            "store in trouble": self._store_in_trouble,
            "crash a host": self._crash_host,
            "habits": self._bad_habits,
            "clock": self._set_a_clock,
            FORGERY: self._forge_a_report,
            QUIESCING: lambda: self._lie_in_wait(self._kill_one, self._held),
            LOST_QUIESCING: lambda: self._lie_in_wait(self._lose_one, self._held_beside_others),
        }
        usual = kinds.keys() - RARE
        # Each seed has its own weights, so that some are hard in one way.
        self._kinds = [
            (kind, self._random.random() ** 2) for name, kind in kinds.items() if name in (mix.kinds or usual)
        ]

    def begin(self) -> None:
        """From now on things go wrong."""
        if not self._mix.kinds and self._random.random() < BEHIND_SHARE:
            self._after(self._random.uniform(0.0, 15.0), self._come_back_behind)
        self._go_on()

    def _go_on(self) -> None:
        self._after(self._random.expovariate(1 / self._mix.gap_seconds), self._next)

    def end(self) -> None:
        """Everything that can be put right is."""
        self._is_over = True
        world = self._world
        world.story.tell("faults", "end")
        world.network.cut.clear()
        world.network.weather.__dict__.update(vars(Weather()))
        world.database.trouble.__dict__.update(vars(Trouble()))
        world.ground.habits.__dict__.update(vars(type(world.ground.habits)()))
        for machine in world.machines.values():
            self._switch_on(machine)
            machine.clock.set_right()
            for process in machine.living():
                process.dies_in_calls = None
                process.go_on()

    def _next(self) -> None:
        weights = [weight for _, weight in self._kinds]
        self._random.choices([kind for kind, _ in self._kinds], weights)[0]()
        self._go_on()

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        self._world.scheduler.after(seconds, lambda: None if self._is_over else call())

    def _tell(self, what: str, **values: object) -> None:
        self._world.story.tell("faults", what, **values)

    def _seconds(self) -> float:
        """Mostly short, at times longer than any lease."""
        if self._random.random() < 0.3:
            return self._random.uniform(55.0, 150.0)
        return self._random.expovariate(1 / 20.0)

    def _machine(self) -> Machine:
        machines = self._world.machines.values()
        return self._random.choice([each for each in machines if each.name.startswith(self._mix.at)])

    # ---- processes

    def _kill(self) -> None:
        machine = self._machine()
        if machine.living():
            process = self._random.choice(machine.living())
            self._tell("kills", process=process.name)
            process.kill()

    def _kill_at_a_call(self) -> None:
        machine = self._machine()
        for process in machine.living()[:1]:
            process.dies_in_calls = self._random.randint(1, 40)
            self._tell("will kill", process=process.name, calls=process.dies_in_calls)

    def _lie_in_wait(self, strike: Callable[[Instance], None], victims: Callable[[], list[Instance]]) -> None:
        """For the next time that tasks are to take no more rows. Then something is done to one of them, while others
        may still be in a batch."""
        if not self._lies_in_wait:
            self._lies_in_wait = True
            self._strike_where_tasks_quiesce(strike, victims)

    def _strike_where_tasks_quiesce(
        self, strike: Callable[[Instance], None], victims: Callable[[], list[Instance]]
    ) -> None:
        held = victims()
        if not held:
            self._after(LOOK_SECONDS, lambda: self._strike_where_tasks_quiesce(strike, victims))
            return
        self._lies_in_wait = False
        strike(self._random.choice(held))

    def _held(self) -> list[Instance]:
        return [each for each in self._world.ground.running.all() if each.is_held and not each.host.process.is_dead]

    def _held_beside_others(self) -> list[Instance]:
        """Tasks whose job has tasks in other containers, which take no rows either."""
        held = self._held()
        places = {(each.spec.job, each.host.process.machine.name) for each in held}
        jobs = Counter(job for job, _ in places)
        return [each for each in held if jobs[each.spec.job] > 1]

    def _kill_one(self, instance: Instance) -> None:
        """Its host, or all that runs in its container."""
        process = self._random.choice(instance.host.process.machine.living())
        self._tell("kills", process=process.name, where_task_quiesces=instance.task_id)
        process.kill()

    def _lose_one(self, instance: Instance) -> None:
        """Its container is off until it is lost."""
        self._tell("loses", where_task_quiesces=instance.task_id)
        self._switch_off_for(instance.host.process.machine, self._random.uniform(*LOST_SECONDS))

    def _stop(self) -> None:
        """One process."""
        self._stop_all([self._random.choice(processes) for processes in [self._machine().living()] if processes])

    def _stop_a_machine(self) -> None:
        """All of it, as a hypervisor would."""
        self._stop_all(self._machine().living())

    def _stop_all(self, processes: list[Process]) -> None:
        seconds = self._seconds()
        self._tell("stops", processes=[process.name for process in processes], seconds=round(seconds, 3))
        for process in processes:
            process.pause()
            self._after(seconds, process.go_on)

    def _switch_off(self) -> None:
        self._switch_off_for(self._machine(), self._seconds())

    def _switch_off_for(self, machine: Machine, seconds: float) -> None:
        self._tell("switches off", machine=machine.name, seconds=round(seconds, 3))
        machine.is_up = False
        for process in machine.living():
            process.kill()
        self._after(seconds, lambda: self._switch_on(machine))

    def _switch_on(self, machine: Machine) -> None:
        if not machine.is_up:
            machine.is_up = True
            self._world.boot(machine.name)

    def _come_back_behind(self) -> None:
        """A container is off until it is lost, and for a while afterwards no Task Service answers it: all that it has
        are the specs on its disk. While it is off a job is deleted. It is open for shards again."""
        name = self._random.choice([each for each in self._world.machines if each.startswith("c")])
        services = [each for each in self._world.machines if each.startswith("tasks")]
        seconds = self._random.uniform(*LOST_SECONDS)
        self._switch_off_for(self._world.machines[name], seconds)
        self._cut_for({(name, each) for each in services}, seconds + self._random.uniform(15.0, 45.0))
        self._after(self._random.uniform(0.0, 0.8) * seconds, self._world.workload.delete_something)
        self._after(seconds, lambda: self._world.workload.open(name))

    def _crash_host(self) -> None:
        hosts = [host for hosts in self._world.around.hosts.values() for host in hosts if not host.process.is_dead]
        if hosts:
            host = self._random.choice(hosts)
            self._tell("crashes", host=host.name)
            host.crash()

    def _bad_habits(self) -> None:
        habits = self._world.ground.habits
        habits.slow = self._random.choice((1.0, 1.0, 3.0, 8.0))
        habits.breaks, habits.dies = self._random.random() * 0.3, self._random.random() * 0.2
        habits.sticks, habits.lies = self._random.random() * 0.2, self._random.choice((0.0, 0.3))
        self._tell("hosts behave badly", slow=habits.slow, breaks=round(habits.breaks, 3), lies=habits.lies)
        self._after(self._seconds(), lambda: habits.__dict__.update(vars(type(habits)())))

    def _forge_a_report(self) -> None:
        """A container says in the name of another one that nothing runs there, by all that it could know."""
        memory = self._world.database.memory
        by, of = self._random.sample(sorted(name for name in self._world.machines if name.startswith("c")), 2)
        member, living = memory.members.get(of), self._world.machines[by].living()
        if member is None or not living:
            return
        batch = TaskReportBatch(
            container=of,
            incarnation=member.incarnation,
            commit_number=memory.counters["running_commit"] + 1,
            version=2**40,
            tasks=(),
        )
        newest = memory.reports.get(of)
        number = 1 + ((newest and newest.number) or 0)
        client = TaskServiceClient(self._world.around.task_services, identity=Known(Caller(Role.TASK_MANAGER, by)))

        def forge() -> None:
            with suppress(Unavailable):
                client.report(batch, number)

        self._tell("forges a report", by=by, of=of)
        living[0].begin("forges", forge)

    def _set_a_clock(self) -> None:
        """By seconds to minutes, either way."""
        machine, seconds = self._machine(), self._random.choice((-1.0, 1.0)) * self._random.uniform(1.0, 18.0) ** 2
        self._tell("sets the time", machine=machine.name, seconds=round(seconds, 3))
        machine.clock.jump(seconds)

    # ---- network and store

    def _cut(self) -> None:
        """A machine from another, from the store, or from everybody."""
        names = [*self._world.machines, DATABASE]
        self._cut_from([self._random.choice(names)] if self._random.random() < 0.6 else names)

    def _cut_a_service(self) -> None:
        """A machine from all processes of a service, or from the store."""
        service = self._random.choice(("shards", "tasks", "syncer", DATABASE))
        self._cut_from([name for name in (*self._world.machines, DATABASE) if name.startswith(service)])

    def _cut_from(self, others: list[str]) -> None:
        """Both ways, or one of them."""
        first = self._machine().name
        to, fro = {(first, other) for other in others}, {(other, first) for other in others}
        self._cut_for(self._random.choice((to, fro, to | fro)), self._seconds())

    def _cut_for(self, pairs: set[tuple[str, str]], seconds: float) -> None:
        self._tell("cuts", pairs=[f"{one}>{other}" for one, other in sorted(pairs)], seconds=round(seconds, 3))
        self._world.network.cut |= pairs
        self._after(seconds, lambda: self._world.network.cut.difference_update(pairs))

    def _bad_weather(self) -> None:
        weather = self._world.network.weather
        weather.lost, weather.twice = self._random.random() * 0.3, self._random.random() * 0.3
        weather.late, weather.late_seconds = self._random.random() * 0.3, self._random.choice((0.5, 5.0, 40.0))
        self._tell("bad weather", **{name: round(value, 3) for name, value in vars(weather).items()})
        self._after(self._seconds(), lambda: weather.__dict__.update(vars(Weather())))

    def _store_away(self) -> None:
        seconds = self._seconds()
        self._tell("store away", seconds=round(seconds, 3))
        self._world.database.trouble.is_away = True
        self._after(seconds, lambda: setattr(self._world.database.trouble, "is_away", False))

    def _store_in_trouble(self) -> None:
        trouble = self._world.database.trouble
        trouble.fails, trouble.forgets = self._random.random() * 0.4, self._random.random() * 0.4
        trouble.slow_seconds = self._random.choice((0.0, 0.2, 4.0))
        self._tell("store in trouble", **{name: round(value, 3) for name, value in vars(trouble).items()})
        self._after(self._seconds(), lambda: self._heal_store(trouble))

    def _heal_store(self, trouble: Trouble) -> None:
        trouble.fails = trouble.forgets = trouble.slow_seconds = 0.0
