"""Writes at random by people who never have the word `allow_repeats`, while others read: no row is ever there twice.

An account of its own says what tasks write: from the source's rows that a job has not read, to where it runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from penstock.control.errors import UserError
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import BatchAction, BatchWrite
from tests.support.job_service.rows_twice import READY, job
from tests.support.state_syncer.cell import Cell

JOBS = ("a", "b", "c")
PLACES = ("p", "q", "r")
QUERIES = ("SELECT origin, dest FROM flights", "SELECT dest, origin FROM flights")
_ROUNDS_OF_A_RESTORE = 8


def about(config: dict[str, Any]) -> str:
    """A job at random, for people."""
    start = config["inputs"]["flights"]["starting_position"]
    return f"{config['output']['topic']} {config['query']['sql'][7:13]} {config['desired_state']} from {start}"


@dataclass
class World:
    """Rows of the source are numbers from 0 on. `read`: up to where a life of a job has read in a generation. `saved`:
    the same of savepoints; `asked`: of the restores that are asked for."""

    client: JobClient
    cell: Cell
    random: Random
    has_word: bool
    rows: int = 0
    read: dict[tuple[str, Any, int], int] = field(default_factory=dict)
    saved: dict[tuple[str, str], int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    written: set[tuple[str, int]] = field(default_factory=set)
    twice: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)

    def step(self) -> None:
        """Somebody does something, the State Syncer may have rounds, and the tasks work."""
        does = self.random.choice((self.put, self.put, self.move, self.stop_or_start, self.delete, self.replace))
        if self.random.random() < 0.4:
            does = self.random.choice((self.save, self.restore, self.restore, self.cancel))
        there = sorted({each.job for each in self.client.list_jobs()} & set(JOBS))
        name = self.random.choice(there if there and self.random.random() < 0.6 else JOBS)
        try:
            told = does(name)
        except UserError as error:
            told = f"refused: {error.rule}"
        self.story.append(f"{does.__name__} {name}: {told}")
        self.work()
        rounds = self.random.choice((0, 1, 3, _ROUNDS_OF_A_RESTORE))
        for _ in range(rounds):
            self.cell.rounds(1)
            self.work()

    def config(self) -> dict[str, Any]:
        """A job at random."""
        start = self.random.choice(("earliest", "latest"))
        given = {**job({"starting_position": start}), "query": {"sql": self.random.choice(QUERIES)}}
        state = self.random.choice(("running", "running", "stopped"))
        return {**given, "output": {"type": "kafka", "topic": self.random.choice(PLACES)}, "desired_state": state}

    def put(self, name: str) -> str:
        """Makes or changes a job."""
        config = self.config()
        self.client.put_job(name, config, verify=False, allow_repeats=self.has_word)
        return about(config)

    def replace(self, name: str) -> str:
        """Deletes a job and makes another one, in one batch."""
        other = self.random.choice([each for each in JOBS if each != name])
        config = self.config()
        put = BatchWrite(action=BatchAction.PUT_JOB, job=other, config=config, allow_repeats=self.has_word)
        done = self.client.batch([BatchWrite(action=BatchAction.DELETE_JOB, job=name), put])
        self.asked.pop(name, None)
        return f"by {other}, {[each.status for each in done]}: {about(config)}"

    def move(self, name: str) -> str:
        """Gives a job another output."""
        place = self.random.choice(PLACES)
        self.patch(name, {"output": {"topic": place}})
        return place

    def stop_or_start(self, name: str) -> str:
        """Stops a job that runs, starts one that is stopped."""
        is_stopped = self.client.get_job(name).config["desired_state"] == "stopped"
        state = "running" if is_stopped else "stopped"
        self.patch(name, {"desired_state": state})
        return state

    def patch(self, name: str, change: dict[str, Any]) -> None:
        """Changes the base layer."""
        version = self.client.get_layer(name, "base").version
        self.client.patch_layer(name, "base", change, if_match=version, verify=False, allow_repeats=self.has_word)

    def delete(self, name: str) -> str:
        """Deletes a job."""
        done = self.client.delete_job(name)
        self.asked.pop(name, None)
        return f"revision {done.revision}"

    def save(self, name: str) -> str:
        """Makes a savepoint, of what the job has read by now."""
        made = self.client.create_savepoint(name, f"s{len(self.story)}").name
        self.cell.do(f"{READY} AND savepoints.state = 'asked'")
        (row,) = self.running(name)
        self.saved[name, made] = self.position(row)
        return f"{made} at {self.saved[name, made]}"

    def restore(self, name: str) -> str:
        """Lets a job go on from a savepoint, of itself or of another one."""
        of, savepoint = self.random.choice(sorted(self.saved) or [(name, "none")])
        self.client.restore(name, savepoint, of=of, allow_repeats=self.has_word)
        self.asked[name] = self.saved[of, savepoint]
        return f"{savepoint} of {of}"

    def cancel(self, name: str) -> str:
        """Takes a restore back."""
        self.client.cancel_restore(name, allow_repeats=self.has_word)
        self.asked.pop(name, None)
        return "done"

    def running(self, name: str | None = None) -> list[Any]:
        """What is committed of jobs."""
        return self.cell.rows(
            """
            SELECT job, running.config, generation, stopping, created_at,
                EXISTS (SELECT FROM restores WHERE restores.job = running.job) AS is_asked
            FROM running JOIN jobs ON jobs.name = job
            WHERE job = ANY(:jobs) AND started ORDER BY job
            """,
            jobs=list(JOBS) if name is None else [name],
        )

    def position(self, row: Any) -> int:
        """The first row that a job has not read."""
        key = row["job"], row["created_at"], row["generation"]
        if key not in self.read:
            is_restored = row["job"] in self.asked and not row["is_asked"]
            from_now = row["config"]["inputs"]["flights"]["starting_position"] == "latest"
            self.read[key] = self.asked.pop(row["job"]) if is_restored else self.rows if from_now else 0
        return self.read[key]

    def work(self) -> None:
        """There is a row more in the source, and all tasks write what they have not read."""
        for row in self.running():
            if not row["stopping"] and row["config"]["desired_state"] == "running":
                place, begin = row["config"]["output"]["topic"], self.position(row)
                new = {(place, number) for number in range(begin, self.rows)}
                if twice := new & self.written:
                    self.twice.append(f"{row['job']} writes {len(twice)} rows again to {place}")
                    self.story.append(self.twice[-1])
                self.written |= new
                self.read[row["job"], row["created_at"], row["generation"]] = self.rows
        self.rows += 1


def go(client: JobClient, cell: Cell, seed: int, *, has_word: bool = False, steps: int = 40) -> World:
    """Some steps, with readers of all places."""
    places = {"topic": None, "topic_pattern": "|".join(PLACES)}
    client.put_job("reads", job(places, topic="counts"), verify=False)
    world = World(client, cell, Random(seed), has_word)
    for _ in range(steps):
        world.step()
    return world


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 7))
def test_no_row_is_there_twice_without_the_word(client: JobClient, cell: Cell, seed: int) -> None:
    world = go(client, cell, seed)
    assert world.written, world.story
    assert not world.twice, "\n".join(world.story)


def test_the_account_sees_rows_that_are_there_twice(client: JobClient, cell: Cell) -> None:
    """With the word they come: a job reads again what one before it has written."""
    world = World(client, cell, Random(0), has_word=True)
    for name in ("a", "b"):
        client.put_job(name, job(topic="p"), verify=False, allow_repeats=True)
        cell.rounds(2)
        world.work()
        world.work()
        client.delete_job(name)
        cell.rounds(3)
    assert world.twice == ["b writes 1 rows again to p"]
