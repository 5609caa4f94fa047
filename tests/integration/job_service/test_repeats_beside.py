"""Jobs that write where another one still writes, or take its place step by step: what would be there twice is told."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from penstock.control.errors import Conflict
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import BatchAction, BatchWrite
from tests.support.cli.shell import Shell
from tests.support.job_service.rows_twice import CHANGED, FILTER, READER, TOPIC, gone, job
from tests.support.job_service.service import CONFIG
from tests.support.state_syncer.cell import Cell

SAME = r"etl reads flights too, makes the same rows"
OTHER = r"etl reads flights too and writes to clean, by another query"
LATEST = job({"starting_position": "latest"})
DELTA = {"type": "delta", "path": "/data/out"}
TABLE = {"base": {"path": "/data/out", "format": "delta"}}


def table(**output: Any) -> dict[str, Any]:
    return {**job(), "output": {**DELTA, **output}}


def reader_of_table() -> dict[str, Any]:
    config = {name: value for name, value in READER.items() if name != "inputs"}
    return {
        **config,
        "query": {"sql": "SELECT origin, dest FROM rows"},
        "streams": {"rows": {"format": "delta", "path": "/data/out"}},
    }


def test_a_second_writer_of_new_rows_only_is_refused(client: JobClient, cell: Cell) -> None:
    """Each row that comes later would be there twice, wherever the second one begins."""
    client.put_job("etl", job())
    cell.rounds(2)
    client.put_job("reads", READER)
    for ask in (client.put_job, client.plan):
        with pytest.raises(Conflict, match=SAME):
            ask("heir", LATEST)
    (note,) = client.put_job("heir", LATEST, allow_repeats=True).notes
    assert note.startswith("etl reads flights too, makes the same rows")


def test_two_new_jobs_of_one_batch_that_make_the_same_are_seen(client: JobClient) -> None:
    """The first is made, the others meet it; one that is refused itself is met by nobody."""
    client.put_job("reads", READER)
    bad = {**job(), "priority": "high"}
    writes = [
        BatchWrite(action=BatchAction.PUT_JOB, job=name, config=config)
        for name, config in (("bad", bad), ("etl", job()), ("heir", LATEST), ("late", job(topic="elsewhere")))
    ]
    bad_done, first, second, other = client.batch(writes)
    assert (bad_done.status, first.status, second.status, other.status) == (422, 200, 409, 200)
    assert second.problem is not None
    assert second.problem.detail.startswith("etl reads flights too, makes the same rows")


def test_a_rename_with_another_query_is_refused_before_the_old_job_is_deleted(
    client: JobClient, cell: Cell, shell: Shell, tmp_path: Path
) -> None:
    """1. The new name is written first, by hand or by `apply --prune`: refused, and nothing is deleted. 2. With
    the word it is done."""
    client.put_job("etl", job())
    cell.rounds(2)
    client.put_job("reads", READER)
    for ask in (client.put_job, client.plan):
        with pytest.raises(Conflict, match=OTHER):
            ask("etl-2", CHANGED)
    (tmp_path / "etl-2.json").write_text(json.dumps(CHANGED))
    words = ("apply", "-f", str(tmp_path), "--no-verify", "--prune", "--prefix", "etl", "--yes")
    refused = shell(*words)
    assert (refused.code, "by another query" in " ".join(refused.err.split())) == (1, True)
    assert {each.job for each in client.list_jobs()} == {"etl", "reads"}
    assert "1 create, 1 prune" in shell(*words, "--allow-repeats").ok()


def test_a_rename_that_nobody_reads_is_told_to_those_who_come(client: JobClient, cell: Cell) -> None:
    """1. The new job is written, with a note. As long as both are there, they are two jobs with rows of their own. 2.
    The old one is deleted, with a note: it was a rename. 3. A reader that comes is told. 4. A job that was there first
    is no heir."""
    client.put_job("etl", job())
    cell.rounds(2)
    (note,) = client.put_job("heir", CHANGED).notes
    assert note.startswith("etl reads flights too and writes to clean")
    cell.rounds(2)
    assert client.plan("reads", READER, verify=False).notes == []
    assert client.plan("etl", {**job(), "priority": 2}, layer="base", verify=False).notes == []
    (note,) = client.delete_job("etl").notes
    assert note.startswith("heir, made after etl, reads rows that etl has read and writes to clean")
    (note,) = client.put_job("reads", READER).notes
    assert note.startswith("clean may have rows twice: heir was accepted")
    client.put_job("filter", FILTER, allow_repeats=True)
    cell.rounds(2)
    assert client.delete_job("filter").notes == ["reads reads what filter wrote: no new row comes there"]


def test_a_second_writer_that_is_accepted_is_told_to_those_who_come(client: JobClient, cell: Cell) -> None:
    """Also to who looks rows up in a table; a reader of new rows, and one that is there already, are not told."""
    client.put_job("etl", table(allow_other_writers=True))
    cell.rounds(2)
    client.put_job("early", reader_of_table())
    with pytest.raises(Conflict, match=SAME):
        client.put_job("heir", table(allow_other_writers=True))
    client.put_job("heir", table(allow_other_writers=True), allow_repeats=True)
    cell.rounds(1)
    assert client.put_job("early", {**reader_of_table(), "priority": 2}).notes == []
    looks_up = {
        **job({"topic": "boats"}, topic="looked-up"),
        "tables": TABLE,
        "query": {"sql": "SELECT flights.origin, flights.dest FROM flights JOIN base USING (origin)"},
    }
    for name, config in (("late", reader_of_table()), ("looks-up", looks_up)):
        (note, *_) = reversed(client.put_job(name, config, verify=False).notes)
        assert note.startswith("/data/out may have rows twice: heir was accepted")


def test_jobs_that_say_that_they_share_a_table_may_make_other_rows_for_it(client: JobClient, cell: Cell) -> None:
    """`allow_other_writers` is the word for that."""
    client.put_job("etl", table(allow_other_writers=True))
    cell.rounds(1)
    client.put_job("reads", reader_of_table())
    assert client.put_job("filter", {**FILTER, **{"output": {**DELTA, "allow_other_writers": True}}}).notes == []


def test_jobs_that_say_that_they_share_a_topic_are_written_in_any_order(client: JobClient) -> None:
    """1. Two jobs with other rows for one topic, and its reader, as `apply` writes them into a fresh cell. 2. Refused:
    a job that says so, too, and makes the rows of one of them; one that makes other rows and says nothing."""
    for number, order in enumerate(permutations(("eu", "us", "reads"))):
        topic = f"alerts-{number}"
        shared = {**CONFIG["output"], "topic": topic, "allow_other_writers": True}
        configs = {
            "eu": {**job(), "output": shared},
            "us": {**FILTER, "output": shared},
            "reads": job({"topic": topic}, topic=f"counts-{number}"),
        }
        assert [client.put_job(f"{name}-{number}", configs[name]).notes for name in order] == [[], [], []]
        with pytest.raises(Conflict, match=f"us-{number} reads flights too, makes the same rows"):
            client.put_job("heir", configs["us"])
        with pytest.raises(Conflict, match="by another query"):
            client.put_job("heir", {**CHANGED, "output": {**shared, "allow_other_writers": False}})


def test_a_table_whose_rows_were_replaced_gets_no_second_ones(client: JobClient, cell: Cell) -> None:
    """A job that replaced rows by their key is gone, and one that only adds rows comes."""
    gone(client, cell, config=table(upsert_columns=["origin"]))
    client.put_job("reads", reader_of_table())
    assert client.put_job("heir", table(upsert_columns=["origin"]), verify=False).notes == []
    client.delete_job("heir")
    cell.rounds(3)
    with pytest.raises(Conflict, match="/data/out has rows that etl has written"):
        client.put_job("adds", table())


def test_a_job_that_moves_while_it_is_stopped_is_judged_then(client: JobClient, cell: Cell) -> None:
    """1. It ran elsewhere, is stopped, and is to write where another one does: refused, since nothing is new when it is
    started. 2. With the word its start needs none."""
    client.put_job("etl", job())
    client.put_job("heir", job(topic="elsewhere"))
    cell.rounds(2)
    client.put_job("reads", READER)
    client.patch_layer("heir", "base", {"desired_state": "stopped"}, if_match=1)
    cell.rounds(2)
    move = {"output": {"topic": TOPIC}}
    with pytest.raises(Conflict, match=SAME):
        client.patch_layer("heir", "base", move, if_match=2)
    client.patch_layer("heir", "base", move, if_match=2, allow_repeats=True)
    cell.rounds(2)
    assert client.patch_layer("heir", "base", {"desired_state": "running"}, if_match=3).notes == []


def test_both_jobs_of_one_output_stop_and_start_without_a_word(client: JobClient, cell: Cell) -> None:
    """It was accepted once that they write the same."""
    for name in ("etl", "heir"):
        client.put_job(name, job(), allow_repeats=True)
    cell.rounds(2)
    client.put_job("reads", READER)
    for name in ("etl", "heir"):
        client.patch_layer(name, "base", {"desired_state": "stopped"}, if_match=1)
    cell.rounds(2)
    for name in ("heir", "etl"):
        assert client.patch_layer(name, "base", {"desired_state": "running"}, if_match=2).notes == []


def test_a_query_that_becomes_that_of_another_job_is_refused(client: JobClient, cell: Cell) -> None:
    """Two jobs with other rows for one topic were accepted; the same rows were not."""
    client.put_job("etl", job())
    client.put_job("heir", FILTER)
    cell.rounds(2)
    client.put_job("reads", READER)
    assert client.put_job("heir", CHANGED).notes == []
    cell.rounds(2)
    with pytest.raises(Conflict, match=SAME):
        client.put_job("heir", job())
    client.put_job("etl", {**job(), "desired_state": "stopped"})
    with pytest.raises(Conflict, match=SAME):
        client.put_job("heir", job())


def test_an_override_of_the_output_ends_only_where_its_job_finds_its_place_free(client: JobClient, cell: Cell) -> None:
    """1. On-call moves a job, and another one makes its rows at the old place, with the word, and never
    runs. 2. The override cannot be taken back as long as that one is there."""
    client.put_job("etl", job())
    cell.rounds(2)
    client.put_job("reads", READER)
    client.put_layer("etl", "oncall", {"output": {"topic": "moved"}}, if_match=0)
    cell.rounds(2)
    with pytest.raises(Conflict, match="clean has rows that etl has written"):
        client.put_job("heir", job())
    client.put_job("heir", job(), allow_repeats=True)
    with pytest.raises(Conflict, match="heir reads flights too, makes the same rows"):
        client.drop_layer("etl", "oncall", if_match=1)
    client.delete_job("heir")
    cell.rounds(3)
    client.drop_layer("etl", "oncall", if_match=1)


def test_a_move_is_judged_by_what_is_expected_not_by_what_still_runs(client: JobClient, cell: Cell) -> None:
    """1. A job is moved, and another one takes its place before a round has seen that. 2. The move is taken back: what
    runs is no answer to who is there now."""
    client.put_job("etl", job())
    cell.rounds(2)
    client.put_job("etl", job(topic="moved"))
    client.put_job("heir", job(), allow_repeats=True)
    client.put_job("reads", READER)
    with pytest.raises(Conflict, match="heir reads flights too, makes the same rows"):
        client.put_job("etl", job())


def test_a_topic_that_is_read_from_its_beginning_again_is_told(client: JobClient, cell: Cell) -> None:
    """A topic that its pattern left out for a while: its offsets are forgotten."""
    pattern = {"topic": None, "topic_pattern": "fl.*|boats"}
    without = {**pattern, "excluded_topics": ["boats"]}
    client.put_job("etl", job(pattern))
    cell.rounds(2)
    client.put_job("reads", READER)
    assert client.put_job("etl", job(without)).notes == []
    cell.rounds(2)
    with pytest.raises(Conflict, match="etl reads boats from the beginning again"):
        client.put_job("etl", job(pattern))
    assert len(client.put_job("etl", job(pattern), allow_repeats=True).notes) == 1
    assert client.put_job("etl", {**job(pattern), "priority": 2}).notes == []


def test_a_topic_that_was_to_be_left_out_for_a_moment_may_be_read_again(client: JobClient, cell: Cell) -> None:
    """The write that leaves it out is not committed yet, and may be at any time."""
    pattern = {"topic": None, "topic_pattern": "fl.*|boats"}
    client.put_job("etl", job(pattern))
    cell.rounds(2)
    client.put_job("reads", READER)
    client.put_job("etl", job({**pattern, "excluded_topics": ["boats"]}))
    with pytest.raises(Conflict, match="etl reads boats from the beginning again"):
        client.plan("etl", job(pattern), layer="base", action="put")
    with pytest.raises(Conflict, match="etl reads boats from the beginning again"):
        client.put_job("etl", job(pattern))
