"""Jobs that go on from a savepoint: what they write again is told, to them and to those who read it later."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from penstock.control.errors import Conflict
from penstock.wire.job_client import JobClient
from tests.support.cli.shell import Shell
from tests.support.control.rounds import rounds_go_on
from tests.support.job_service.rows_twice import CHANGED, READER, READY, TOPIC, job, with_savepoint
from tests.support.state_syncer.cell import Cell

AGAIN = "writes the rows since the savepoint again to"


def put_stopped(client: JobClient, name: str, topic: str = TOPIC) -> None:
    """A job that is to be restored before it runs."""
    client.put_job(name, {**job(topic=topic), "desired_state": "stopped"})


def pasted(refusal: str) -> list[list[str]]:
    """The commands that a refusal names, in their order."""
    return [words.split()[1:] for words in re.findall(r"`(penstock [^`]+)`", refusal)]


def test_the_way_that_a_refusal_names_works_as_pasted(
    client: JobClient, cell: Cell, shell: Shell, tmp_path: Path
) -> None:
    """1. A job is to take the place of another: refused, with the commands. 2. They are pasted; only the file is
    written where the text says so. The new job runs, with the state of the old one."""
    client.put_job("etl", job())
    cell.rounds(2)
    client.put_job("reads", READER)
    with pytest.raises(Conflict) as refused:
        client.put_job("heir", job())
    stop, save, delete, restore, start = pasted(refused.value.detail)
    (tmp_path / "heir.json").write_text(json.dumps({**job(), "desired_state": "stopped"}))
    with rounds_go_on(partial(round_with_savepoints, cell)):
        for words in (stop, save, delete):
            shell(*words).ok()
        shell("jobs", "apply", "heir", str(tmp_path / "heir.json"), "--no-verify").ok()
        shell(*restore).ok()
        shell(*start).ok()
    cell.rounds(2)
    heir = client.get_job("heir")
    assert (heir.state, heir.generation, heir.config["desired_state"]) == ("synced", 2, "running")


def round_with_savepoints(cell: Cell) -> None:
    """A round of the State Syncer; savepoints that are asked for are taken."""
    cell.do(f"{READY} AND savepoints.state = 'asked'")
    cell.rounds(1)


def test_a_job_that_has_left_is_gone_on_from_as_pasted(
    client: JobClient, cell: Cell, shell: Shell, tmp_path: Path
) -> None:
    """1. It has no savepoint: the text says so. 2. It has one: the text names it."""
    with_savepoint(client, cell)
    client.put_job("reads", READER)
    client.put_job("none", job(topic="alone"))
    client.put_job("reads-alone", job({"topic": "alone"}, topic="counts"))
    cell.rounds(2)
    for name in ("etl", "none"):
        client.delete_job(name)
    cell.rounds(3)
    with pytest.raises(Conflict, match="There is no savepoint of none to go on from") as refused:
        client.put_job("heir", job(topic="alone"))
    assert pasted(refused.value.detail) == []
    with pytest.raises(Conflict, match="To go on from a savepoint of etl") as refused:
        client.put_job("heir", job())
    restore, start = pasted(refused.value.detail)
    assert restore[3] == "last"
    put_stopped(client, "heir")
    with rounds_go_on(partial(cell.rounds, 1)):
        shell(*restore).ok()
        shell(*start).ok()
    cell.rounds(2)
    assert client.get_job("heir").generation == 2


def test_a_restore_that_nobody_reads_is_told_to_those_who_come(client: JobClient, cell: Cell, shell: Shell) -> None:
    """1. A job goes back; a copy of it with the same output goes on from there, too. Both are told. 2. Who comes later
    is told, for each place. 3. A copy with an output of its own repeats nothing."""
    with_savepoint(client, cell)
    assert "NOTE etl writes the rows since the savepoint again to clean" in " ".join(
        shell("savepoint", "restore", "etl", "last", "--no-wait").ok().split()
    )
    (note,) = client.put_job("late", READER).notes
    assert note.startswith("clean may have rows twice: etl was accepted")
    client.delete_job("late")
    cell.rounds(8)
    put_stopped(client, "copy")
    (note,) = client.restore("copy", "last", of="etl").notes
    assert note.startswith(f"copy {AGAIN} clean")
    put_stopped(client, "apart", "apart")
    assert client.restore("apart", "last", of="etl").notes == []
    assert client.put_job("later", job({"topic": "apart"}, topic="counts")).notes == []


def test_who_reads_the_output_that_a_job_has_now_is_asked_too(client: JobClient, cell: Cell) -> None:
    """1. It has moved since the savepoint, and wrote where it is now: it would write that again. 2. It goes back there,
    with the word. 3. The place that it left has rows of that time, too: it may not return without the word."""
    with_savepoint(client, cell)
    client.put_job("etl", job(topic="moved"))
    cell.rounds(2)
    client.put_job("reads-old", READER)
    client.put_job("reads", job({"topic": "moved"}, topic="counts"))
    (note,) = client.plan("etl", job(), layer="base", verify=False).notes
    assert note == "etl writes no more to moved, which these jobs read: reads.", "back at its old place it would go on"
    with pytest.raises(Conflict, match=f"etl {AGAIN} moved, .* late: reads"):
        client.restore("etl", "last")
    client.restore("etl", "last", allow_repeats=True)
    cell.rounds(8)
    with pytest.raises(Conflict, match="clean has rows that an earlier job of this name has written"):
        client.put_job("etl", job())


def test_what_was_left_before_the_savepoint_is_not_written_again(client: JobClient, cell: Cell) -> None:
    """It has moved, and then made its savepoint: back at the old place it goes on."""
    client.put_job("etl", job(topic="old"))
    cell.rounds(2)
    with_savepoint(client, cell)
    client.put_job("reads-old", job({"topic": "old"}, topic="counts"))
    client.restore("etl", "last")
    cell.rounds(8)
    assert client.put_job("etl", job(topic="old")).notes == []


def test_a_restored_job_that_gets_another_output_is_judged_anew(client: JobClient, cell: Cell) -> None:
    """1. A copy, never run, is to go on from a savepoint, at a place of its own: no word. 2. Before it does so it gets
    the place of the saved job: refused, stopped or not. 3. Its start, where it was accepted, needs none."""
    with_savepoint(client, cell)
    client.put_job("reads", READER)
    put_stopped(client, "copy", "apart")
    client.restore("copy", "last", of="etl")
    for patch in ({"output": {"topic": TOPIC}}, {"output": {"topic": TOPIC}, "desired_state": "running"}):
        with pytest.raises(Conflict, match="etl reads flights too, makes the same rows"):
            client.patch_layer("copy", "base", patch, if_match=1)
    client.patch_layer("copy", "base", {"output": {"topic": TOPIC}}, if_match=1, allow_repeats=True)
    assert client.patch_layer("copy", "base", {"desired_state": "running"}, if_match=2).notes == []


def test_a_job_that_waits_for_its_restore_is_met_by_others(client: JobClient, cell: Cell) -> None:
    """Its start is not judged any more, so who comes to its place meanwhile is."""
    with_savepoint(client, cell)
    put_stopped(client, "copy", "apart")
    client.restore("copy", "last", of="etl")
    client.put_job("reads", job({"topic": "apart"}, topic="counts"))
    with pytest.raises(Conflict, match="copy reads flights too, makes the same rows"):
        client.put_job("third", job(topic="apart"))
    client.put_job("third", job(topic="apart"), allow_repeats=True)


def test_a_restore_meets_what_third_jobs_have_written(client: JobClient, cell: Cell) -> None:
    """1. A copy of the saved job has written at a place of its own, and is gone. 2. Another copy comes there."""
    with_savepoint(client, cell)
    put_stopped(client, "copy", "apart")
    client.restore("copy", "last", of="etl")
    cell.rounds(8)
    client.put_job("reads", job({"topic": "apart"}, topic="counts"))
    client.delete_job("copy")
    cell.rounds(3)
    put_stopped(client, "second", "apart")
    with pytest.raises(Conflict, match="apart has rows that copy has written"):
        client.restore("second", "last", of="etl")
    client.restore("second", "last", of="etl", allow_repeats=True)


def test_a_restore_with_the_query_of_then_has_its_word_for_that_too(client: JobClient, cell: Cell) -> None:
    """By that query it makes the same rows as the saved job, which is there."""
    with_savepoint(client, cell)
    client.put_job("reads", READER)
    client.put_job("copy", CHANGED, allow_repeats=True)
    with pytest.raises(Conflict, match="etl reads flights too, makes the same rows"):
        client.restore("copy", "last", of="etl", with_package=True)
    client.restore("copy", "last", of="etl", with_package=True, allow_repeats=True)
    assert client.get_job("copy").config["query"]["sql"] == job()["query"]["sql"]


def test_an_import_meets_what_is_at_its_place(client: JobClient, cell: Cell) -> None:
    """1. The application had stopped at its checkpoint: nothing comes again. 2. The job ran, and is imported once more:
    what it wrote since comes again, also by a new savepoint of that checkpoint. 3. Another job is at the place."""
    client.put_job("etl", job())
    cell.rounds(2)
    for topic in ("apart", TOPIC):
        client.put_job(f"reads-{topic}", job({"topic": topic}, topic=f"counts-{topic}"))
    imported(client, cell, "moves-in", "apart", "first")
    assert client.restore("moves-in", "first").notes == []
    cell.rounds(8)
    client.delete_job("moves-in")
    cell.rounds(3)
    imported(client, cell, "moves-in", "apart", "second")
    for name in ("first", "second"):
        with pytest.raises(Conflict, match=f"moves-in {AGAIN} apart"):
            client.restore("moves-in", name)
    imported(client, cell, "beside", TOPIC, "first")
    with pytest.raises(Conflict, match="etl reads flights too, makes the same rows"):
        client.restore("beside", "first")


def imported(client: JobClient, cell: Cell, name: str, topic: str, savepoint: str) -> None:
    """A job that has not run, with a checkpoint of another application."""
    put_stopped(client, name, topic)
    client.create_savepoint(name, savepoint, checkpoint="/data/app")
    cell.do("UPDATE savepoints SET state = 'ready' WHERE state = 'asked'")
