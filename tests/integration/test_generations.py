"""Old generations on a real Postgres: what is noted of them, and who is asked to delete what.

Containers are the test's own; what they delete is in `redistribute/test_collect.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock.control.errors import Fenced
from penstock.spark.collect import collect
from penstock.spark.settings import SparkSettings
from penstock.spark.task import Runtime
from penstock.store.engine import connect, transaction
from penstock.tasks.redistribution import GenerationRemoval
from services.job_service.store.overview import noted_generations
from services.state_syncer.decide.progress import Step
from services.state_syncer.generations.gc import GenerationGc
from services.state_syncer.generations.rules import Retention
from services.state_syncer.generations.store import note
from services.state_syncer.host_tasks.outcomes import AttemptKey, Done, Failed, Lost, Outcome, Unanswered
from tests.support.state_syncer.cell import Cell, depose, elect
from tests.support.state_syncer.containers import Containers, MemoryHostTasks, everything_works, fails_at, waits_at
from tests.support.store.jobs import delete_job, make_layer, write_layer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENOUGH_ROUNDS = 8


class Collecting:
    """A job, the rounds of its rescales, and those of the collection: each is of a new process."""

    def __init__(self, engine: Any) -> None:
        self.cell = Cell(engine, ("a", "b"))
        self.containers = Containers(lambda key: Done())
        self.count = 1
        self.at_once = 2
        self.now = 0.0

    def gc(self) -> GenerationGc:
        retention = Retention(count=self.count, seconds=86_400.0, at_once=self.at_once)
        host_tasks = MemoryHostTasks(self.containers)
        return GenerationGc(self.cell.engine, host_tasks, lambda: self.now, retention, look_seconds=60.0)

    def round(self) -> None:
        self.gc().round(self.cell.epoch)

    def rounds(self, count: int = ENOUGH_ROUNDS) -> None:
        """One process."""
        gc = self.gc()
        for _ in range(count):
            gc.round(self.cell.epoch)

    def rescale(self, task_count: int, job: str = "j") -> None:
        write_layer(self.cell.engine, job, make_layer(task_count=task_count))
        self.cell.rounds(6)

    def later(self, hours: float) -> None:
        """All that happened did so many hours before."""
        self.cell.do(
            "UPDATE generations SET unused_since = unused_since - make_interval(secs => :seconds)", seconds=hours * 3600
        )
        self.cell.do("UPDATE forgotten SET at = at - make_interval(secs => :seconds)", seconds=hours * 3600)

    def noted(self, job: str = "j") -> dict[int, str]:
        """The generations whose files are there."""
        with transaction(self.cell.engine) as connection:
            rows = noted_generations(connection, job)
        return {
            row.generation: "used" if row.unused_since is None else "attempted" if row.attempted else "left"
            for row in rows
        }

    def asked(self) -> list[tuple[int, bool]]:
        requests = [ask.request for ask in self.containers.asked]
        return [(each.generation, each.forgotten) for each in requests if isinstance(each, GenerationRemoval)]


@pytest.fixture
def collecting(database_url: str) -> Iterator[Collecting]:
    engine = connect(database_url)
    yield Collecting(engine)
    engine.dispose()


def test_old_generations_go_but_the_newest_and_not_before_their_time(collecting: Collecting) -> None:
    """1. A job with one generation has nothing to note. 2. Three rescales: the old ones stay a day. 3. Then they go,
    but the newest of them. 4. Their rows go, and nothing is asked twice."""
    collecting.rescale(2)
    collecting.rounds()
    assert collecting.noted() == {}
    for task_count in (4, 3, 5):
        collecting.rescale(task_count)
    assert collecting.noted() == {1: "left", 2: "left", 3: "left", 4: "used"}
    collecting.later(23)
    collecting.rounds()
    assert collecting.asked() == []
    collecting.later(1)
    collecting.rounds()
    assert collecting.asked() == [(1, False), (2, False)]
    assert collecting.noted() == {3: "left", 4: "used"}
    collecting.now += 60
    collecting.rounds()
    assert [row["generation"] for row in collecting.cell.rows("SELECT generation FROM generations ORDER BY 1")] == [
        3,
        4,
    ]
    assert len(collecting.asked()) == 2


def test_attempts_go_after_an_hour_and_the_generation_that_was_resumed_stays(collecting: Collecting) -> None:
    """1. An attempt is lost, the next fails: the old generation is resumed. 2. Both go. 3. A rescale: the old one is
    the newest that was left, however many attempts came after it, and stays."""
    collecting.rescale(2)
    works = iter([Lost("no answer")])
    collecting.cell.containers.works = lambda key: (
        next(works, Failed("disk full")) if key.kind == Step.REDISTRIBUTE else everything_works(key)
    )
    collecting.rescale(4)
    assert collecting.cell.running()["generation"] == 1
    assert collecting.noted() == {1: "used", 2: "attempted", 3: "attempted"}
    collecting.rounds()
    assert collecting.asked() == []
    collecting.later(1)
    collecting.rounds()
    assert collecting.asked() == [(2, False), (3, False)]
    assert collecting.noted() == {1: "used"}
    collecting.cell.containers.works = everything_works
    collecting.rescale(3)
    assert collecting.noted() == {1: "left", 4: "used"}
    collecting.later(48)
    collecting.rounds()
    assert len(collecting.asked()) == 2


def test_while_a_plan_is_recorded_nothing_goes(collecting: Collecting) -> None:
    """1. A deletion is asked for and goes on. 2. A plan begins: it is left. 3. Once the plan is over, it is asked for
    again. 4. The plan's own attempt is used as long as the plan has it."""
    collecting.count = 0
    for task_count in (2, 4):
        collecting.rescale(task_count)
    collecting.later(24)
    collecting.containers.works = lambda key: Unanswered()
    collecting.rounds(3)
    assert collecting.asked() == [(1, False)]
    collecting.cell.containers.works = waits_at(Step.REDISTRIBUTE)
    collecting.rescale(3)
    assert collecting.cell.step() == "redistribute"
    collecting.containers.works = lambda key: Failed("it must not be asked")
    collecting.round()
    (row,) = collecting.cell.rows("SELECT container, detail FROM generations WHERE generation = 1")
    assert (row["container"], row["detail"]) == (None, "it is needed")
    collecting.later(24)
    collecting.rounds()
    assert collecting.noted() == {1: "left", 2: "used", 3: "used"}
    assert len(collecting.containers.asked) == 1
    collecting.cell.containers.works = everything_works
    collecting.cell.restart()
    collecting.cell.rounds(4)
    collecting.containers.works = lambda key: Done()
    collecting.rounds()
    assert collecting.noted() == {2: "left", 3: "used"}


@pytest.mark.parametrize("spoilt", ["plan - 'generation'", "jsonb_set(plan, '{generation}', '\"3\"')"])
def test_a_plan_that_does_not_say_its_generation_keeps_all_of_the_job(collecting: Collecting, spoilt: str) -> None:
    """1. A plan is under way in generation 3. 2. What is recorded of it cannot be read: 3 stays noted as used. 3. It
    can be read again, and has come to its end: 3 is left."""
    for task_count in (2, 4):
        collecting.rescale(task_count)
    collecting.cell.containers.works = waits_at(Step.REDISTRIBUTE)
    collecting.rescale(3)
    plan = collecting.cell.sync()["plan"]
    assert (collecting.cell.step(), plan["generation"]) == ("redistribute", 3)
    collecting.cell.do(f"UPDATE sync_state SET plan = {spoilt} WHERE job = 'j'")
    collecting.round()
    assert collecting.noted() == {1: "left", 2: "used", 3: "used"}
    collecting.cell.do("UPDATE sync_state SET plan = NULL WHERE job = 'j'")
    collecting.round()
    assert collecting.noted() == {1: "left", 2: "used", 3: "attempted"}


def test_a_forgotten_job_leaves_nothing_and_one_made_anew_keeps_its_own(collecting: Collecting) -> None:
    """1. A job is forgotten: a day later all that it had goes. 2. Made anew, it has a higher generation, which stays;
    what the deleted one had goes all the same."""
    cell = collecting.cell
    for job in ("j", "k"):
        collecting.rescale(2, job)
    collecting.rescale(4)
    collecting.later(48)
    for job in ("j", "k"):
        delete_job(cell.engine, job)
    cell.rounds(4)
    assert cell.running() is None
    collecting.rounds()
    assert (collecting.noted(), collecting.noted("k"), collecting.asked()) == ({1: "left", 2: "left"}, {1: "left"}, [])
    collecting.later(24)
    collecting.rescale(2, "k")
    collecting.rounds()
    assert sorted(collecting.asked()) == [(1, True), (1, True), (2, True)]
    assert (collecting.noted(), collecting.noted("k")) == ({}, {2: "used"})
    collecting.rescale(3, "j")
    collecting.rounds()
    assert (collecting.noted(), len(collecting.asked())) == ({3: "used"}, 3)


def test_the_files_of_a_deleted_job_go_and_its_savepoints_stay(collecting: Collecting, tmp_path: Path) -> None:
    """On real files, by what a host does. 1. A job had two generations and a savepoint, and is deleted. 2. A day later
    its checkpoints are gone. 3. So are those of a job that was made anew under its name, but for its own."""
    settings = SparkSettings(checkpoint_root=str(tmp_path), packages_root="", kafka_bootstrap="")
    runtime = Runtime(cast("SparkSession", None), settings, "a host")

    def remove(key: AttemptKey) -> Outcome:
        collect(runtime, GenerationRemoval(job=key.job, generation=key.number, forgotten=True))
        return Done()

    def checkpoint(job: str, place: str) -> Path:
        offsets = tmp_path / job / place / "task-0" / "offsets"
        offsets.mkdir(parents=True)
        (offsets / "0").write_text("v1")
        return offsets

    collecting.containers.works = remove
    for job in ("j", "k"):
        collecting.rescale(2, job)
        collecting.rescale(4, job)
    gone = [checkpoint(job, place) for job in ("j", "k") for place in ("g1", "g2")]
    kept = [checkpoint("j", "savepoints/nightly"), checkpoint("k", "g3")]
    for job in ("j", "k"):
        delete_job(collecting.cell.engine, job)
    collecting.cell.rounds(4)
    collecting.rescale(2, "k")
    collecting.rounds()
    collecting.later(23)
    collecting.rounds()
    assert all(folder.exists() for folder in (*gone, *kept))
    collecting.now += 60
    collecting.later(1)
    collecting.rounds(20)
    assert ([folder for folder in gone if folder.exists()], [folder.exists() for folder in kept]) == ([], [True, True])
    assert (collecting.noted(), collecting.noted("k")) == ({}, {3: "used"})


def test_what_was_there_before_generations_were_noted_is_found(collecting: Collecting) -> None:
    """An attempt below the running generation cannot be told from one that ran, and is kept as long."""
    for task_count in (2, 4):
        collecting.rescale(task_count)
    collecting.cell.containers.works = fails_at(Step.REDISTRIBUTE)
    collecting.rescale(3)
    collecting.cell.do("DELETE FROM generations")
    with transaction(collecting.cell.engine) as connection:
        note(connection, at_most=1)
    assert collecting.noted() == {1: "left"}
    collecting.round()
    assert collecting.noted() == {1: "left", 2: "used", 3: "attempted"}


def test_a_savepoint_that_is_being_taken_holds_its_generation(collecting: Collecting) -> None:
    for task_count in (2, 4):
        collecting.rescale(task_count)
    collecting.count = 0
    collecting.later(24)
    collecting.cell.do(
        "INSERT INTO savepoints (job, name, state, generation, author) VALUES ('j', 'nightly', 'asked', 1, 'me')"
    )
    collecting.rounds()
    assert collecting.asked() == []
    collecting.cell.do("UPDATE savepoints SET state = 'ready'")
    collecting.rounds()
    assert collecting.asked() == [(1, False)]


def test_a_new_leader_asks_the_same_container_and_a_deposed_one_writes_nothing(collecting: Collecting) -> None:
    """1. A container is recorded, then asked. 2. The leader dies before it hears. 3. The next asks the same one again.
    4. The old one can write nothing."""
    collecting.count = 0
    for task_count in (2, 4):
        collecting.rescale(task_count)
    collecting.later(24)
    collecting.round()
    assert collecting.asked() == [], "recorded first"
    collecting.round()
    (first,) = collecting.containers.asked
    depose(collecting.cell.engine)
    old_epoch, collecting.cell.epoch = collecting.cell.epoch, elect(collecting.cell.engine, "second")
    with pytest.raises(Fenced):
        collecting.gc().round(old_epoch)
    collecting.rounds(2)
    assert [ask.key for ask in collecting.containers.asked] == [first.key]
    assert collecting.noted() == {2: "used"}


def test_a_deletion_that_fails_pauses_and_goes_to_another_container(collecting: Collecting) -> None:
    collecting.count = 0
    for task_count in (2, 4):
        collecting.rescale(task_count)
    collecting.later(24)
    collecting.containers.works = lambda key: Failed("disk is read-only")
    for _ in range(2):
        collecting.rounds()
        collecting.cell.do("UPDATE generations SET next_attempt_at = next_attempt_at - interval '60 seconds'")
    assert [ask.key.container for ask in collecting.containers.asked] == ["a", "b"]
    (row,) = collecting.cell.rows("SELECT * FROM generations WHERE generation = 1")
    assert (row["container"], row["attempts"], row["detail"]) == (None, 2, "disk is read-only")


def test_only_so_many_at_once_and_a_cell_at_rest_is_looked_at_now_and_then(collecting: Collecting) -> None:
    collecting.count, collecting.at_once = 0, 1
    for task_count in (2, 4, 3, 5):
        collecting.rescale(task_count)
    collecting.later(24)
    gc = collecting.gc()
    for asked in (0, 1, 1, 1, 2):
        assert gc.round(collecting.cell.epoch), "it looks again soon"
        assert len(collecting.asked()) == asked
    for _ in range(5):
        gc.round(collecting.cell.epoch)
    assert len(collecting.asked()) == 3
    collecting.rescale(2)
    collecting.later(24)
    gc.round(collecting.cell.epoch)
    assert collecting.noted() == {4: "left", 5: "used"}, "it is not looked at"
    collecting.now += 60
    for _ in range(3):
        gc.round(collecting.cell.epoch)
    assert collecting.noted() == {5: "used"}


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (0, 2, 3))])
def test_whatever_happens_nothing_that_is_used_is_ever_asked_for(collecting: Collecting, seed: int) -> None:
    """Random rescales, failures, losses, deletions and makings anew, with time going by: at the moment that a removal
    is asked for, and ever after, the generation neither runs nor is written."""
    chance, cell = Random(seed), collecting.cell
    collecting.count = seed % 2
    removed: set[int] = set()

    def used() -> set[int]:
        running, sync = cell.running(), cell.sync()
        plan = sync["plan"] if sync else None
        return {running["generation"] if running else 0, (plan or {}).get("generation") or 0}

    def answer(key: Any) -> Any:
        assert key.number not in used()
        removed.add(key.number)
        return chance.choice([Done(), Failed("busy"), Unanswered()])

    collecting.containers.works = answer
    for _ in range(60):
        match chance.randrange(7):
            case 0 | 1:
                write_layer(cell.engine, "j", make_layer(task_count=chance.choice([2, 3, 4, 5])))
            case 2 if chance.random() < 0.3 and cell.running():
                delete_job(cell.engine, "j")
            case 3:
                results = [Done(), Failed("disk full"), Lost("no answer"), Unanswered()]
                outcome = chance.choice(results)
                cell.containers.works = everything_works if outcome == Done() else lambda _, it=outcome: it
            case 4:
                collecting.later(chance.choice([1, 24]))
            case _:
                collecting.now += 60
                collecting.round()
        for _ in range(chance.randrange(4)):
            cell.now += timedelta(seconds=chance.choice([1, 4000]))
            cell.rounds(1)
            assert not removed & used()
    collecting.later(48)
    assert removed
