"""Jobs that are deleted and made again, or take the output of a deleted one over: what would be there twice is told."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.control.errors import Conflict
from penstock.control.process import wait_until
from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import BatchAction, BatchWrite
from services.job_service.store import flows
from tests.support.cli.shell import Shell
from tests.support.job_service.rows_twice import CHANGED, FILTER, READER, TOPIC, gone, job, with_savepoint
from tests.support.job_service.service import RunningJobService
from tests.support.state_syncer.cell import Cell


def test_a_producer_that_is_made_again_is_refused_while_others_read_its_output(client: JobClient, cell: Cell) -> None:
    """1. It ran, and is gone; others read its topic, one by a pattern. 2. The same job, a job of another name, and one
    that reads the same topic by a pattern are refused, by writes, batches and plans, which name the readers. 3. With
    the word it is accepted; its next writes need none."""
    gone(client, cell)
    client.put_job("reads", READER)
    client.put_job("matches", job({"topic": None, "topic_pattern": f"{TOPIC}|others"}, topic="counts"))
    for name, config in (
        ("etl", job()),
        ("heir", job()),
        ("heir", job({"topic": None, "topic_pattern": "fl.*"})),
        ("heir", job({"starting_position": "2026-01-01T00:00:00Z"})),
        ("heir", job({"starting_position": ",".join(f"{group}:120" for group in range(8))})),
    ):
        for ask in (client.put_job, client.plan):
            with pytest.raises(
                Conflict, match=rf"{TOPIC} has rows .*twice.* matches, reads\. .*--allow-repeats"
            ) as told:
                ask(name, config)
            assert (told.value.field, told.value.rule) == ("allow_repeats", "read_by_others")
    put = BatchWrite(action=BatchAction.PUT_JOB, job="etl", config=job())
    assert [each.status for each in client.batch([put])] == [409]
    assert {each.job for each in client.list_jobs()} == {"reads", "matches"}
    assert [each.status for each in client.batch([put.model_copy(update={"allow_repeats": True})])] == [200]
    assert client.put_job("etl", {**job(), "priority": 2}).notes == []
    cell.rounds(2)
    client.put_job("etl", {**job(), "priority": 3})


def test_what_cannot_repeat_a_row_needs_no_word(client: JobClient, cell: Cell) -> None:
    """Other sources, new rows only, another output; a job that is to be restored first; a job that never ran."""
    gone(client, cell)
    client.put_job("reads", READER)
    client.put_job("others", job({"topic": "trains"}))
    client.put_job("new-rows", job({"starting_position": "latest"}))
    client.put_job("elsewhere", job(topic="elsewhere"))
    client.put_job("waits", {**job(), "desired_state": "stopped"})
    with pytest.raises(Conflict, match="new-rows reads flights too, makes the same rows"):
        client.patch_layer("waits", "base", {"desired_state": "running"}, if_match=1)
    with pytest.raises(Conflict, match="etl has written"):
        client.patch_layer("new-rows", "base", {"inputs": {"flights": {"starting_position": None}}}, if_match=1)
    never = job({"topic": "boats"}, topic="never")
    client.put_job("mistake", never)
    client.delete_job("mistake")
    cell.rounds(3)
    client.put_job("reads-never", job({"topic": "never"}, topic="more"))
    client.put_job("mistake", never)


def test_an_output_that_nobody_reads_is_noted(client: JobClient, cell: Cell, shell: Shell, tmp_path: Path) -> None:
    """By plans and writes, of the API and of the command. One with readers is refused, and written with the option."""
    gone(client, cell)
    assert client.plan("fresh", job(topic="fresh"), verify=False).notes == []
    (note,) = client.plan("etl", job(), verify=False).notes
    assert "an earlier job of this name has written, and etl reads flights as that did" in note
    (tmp_path / "etl.json").write_text(json.dumps(job()))
    planned = shell("plan", "etl", "base", str(tmp_path / "etl.json"), "--no-verify")
    assert "NOTE clean has rows" in " ".join(planned.out.split())
    compared = shell("apply", "-f", str(tmp_path), "--no-verify", "--dry-run")
    assert (compared.code, "etl: clean has rows" in " ".join(compared.err.split())) == (4, True)
    assert "NOTE clean has rows" in " ".join(shell("apply", "-f", str(tmp_path), "--no-verify").ok().split())
    cell.rounds(2)
    client.delete_job("etl")
    cell.rounds(3)
    client.put_job("reads", READER)
    refused = shell("apply", "-f", str(tmp_path), "--no-verify")
    assert (refused.code, "--allow-repeats" in refused.err) == (1, True)
    assert "--allow-repeats" in shell("jobs", "apply", "etl", str(tmp_path / "etl.json"), "--no-verify").refusal()
    assert "1 create" in shell("apply", "-f", str(tmp_path), "--no-verify", "--allow-repeats").ok()


def test_a_reader_that_comes_after_the_repeats_is_told(client: JobClient, cell: Cell) -> None:
    """1. The producer was made again, and nobody read its output. 2. A reader of all that is there, also by a pattern,
    is told by its plan and its write; one of new rows, and one that runs already, are not."""
    gone(client, cell)
    assert client.put_job("early", READER).notes == []
    cell.rounds(2)
    assert len(client.put_job("etl", job(), allow_repeats=True).notes) == 1
    pattern = job({"topic": None, "topic_pattern": f"{TOPIC}|others"}, topic="matching")
    for name, config in (("reads", job({"topic": TOPIC}, topic="more")), ("matches", pattern)):
        (note,) = client.plan(name, config, verify=False).notes
        assert note.startswith("clean may have rows twice: etl was accepted although it may write rows again")
        assert client.put_job(name, config).notes == [note]
    new_rows = job({"topic": TOPIC, "starting_position": "latest"}, topic="counted-anew")
    assert client.put_job("new-rows", new_rows).notes == []
    assert client.put_job("early", {**READER, "priority": 2}).notes == []


def test_a_job_that_moves_leaves_its_rows_behind(client: JobClient, cell: Cell) -> None:
    """1. A job that runs gets another output, and another job the one that it leaves: refused. 2. Itself may go back,
    since it goes on where it is. 3. A job that runs and takes a deleted one's output over may lag behind that: refused,
    wherever it began."""
    client.put_job("etl", job())
    cell.rounds(2)
    client.put_job("reads", READER)
    moves = "etl writes no more to clean, which these jobs read: reads."
    assert client.plan("etl", job(topic="moved"), layer="base", verify=False).notes == [moves]
    assert client.put_job("etl", job(topic="moved")).notes == [moves]
    cell.rounds(2)
    with pytest.raises(Conflict, match="rows that etl has written"):
        client.put_job("heir", job())
    client.put_job("etl", job())
    cell.rounds(2)
    client.put_job("late", job({"starting_position": "latest"}, topic="late"))
    cell.rounds(2)
    client.delete_job("etl")
    cell.rounds(3)
    late = job({"starting_position": "latest"})
    with pytest.raises(Conflict, match="late reads flights as that did"):
        client.put_job("late", late)
    client.put_job("late", late, allow_repeats=True)


def test_a_job_that_takes_another_name_is_refused_in_any_order(client: JobClient, cell: Cell) -> None:
    """1. Its new name is written while the old one runs: refused by plan and write, also with another query, which may
    make other rows: that needs the word. 2. Both in one batch, in either order: a delete of the batch counts. 3. After
    the delete, before a round has seen it."""
    client.put_job("etl", job())
    cell.rounds(2)
    client.put_job("reads", READER)
    for ask in (client.put_job, client.plan):
        with pytest.raises(Conflict, match=r"^etl reads flights too, makes the same rows and writes them to clean"):
            ask("heir", {**job(), "priority": 2, "task_count": 4, "max_task_count": 8})
    for ask in (client.put_job, client.plan):
        with pytest.raises(Conflict, match=r"^etl reads flights too and writes to clean, by another query"):
            ask("filter", FILTER)
    assert len(client.put_job("filter", FILTER, allow_repeats=True).notes) == 1
    assert client.put_job("filter", {**FILTER, "priority": 2}).notes == []
    client.delete_job("filter")
    cell.rounds(3)
    put = BatchWrite(action=BatchAction.PUT_JOB, job="heir", config=CHANGED)
    delete = BatchWrite(action=BatchAction.DELETE_JOB, job="etl", if_match=7)
    assert [each.status for each in client.batch([delete, put])] == [409, 409]
    delete = delete.model_copy(update={"if_match": None})
    assert [each.status for each in client.batch([put, delete])] == [409, 200]
    with pytest.raises(Conflict, match="clean has rows that etl has written"):
        client.put_job("heir", CHANGED)


def test_a_delete_and_a_create_at_once_go_one_after_the_other(
    service: RunningJobService, client: JobClient, cell: Cell
) -> None:
    """The create, which comes second, waits for what the delete leaves."""
    client.put_job("etl", job())
    cell.rounds(2)
    client.put_job("reads", READER)
    with ThreadPoolExecutor(2) as callers, service.client() as other:
        with transaction(service.engine) as connection:
            flows.lock(connection)
            deleted = callers.submit(other.delete_job, "etl")
            wait_until(lambda: _waiting(cell) == 1, 10, "the delete to wait")
            created = callers.submit(client.put_job, "heir", CHANGED)
            wait_until(lambda: _waiting(cell) == 2, 10, "the create to wait")
        assert deleted.result().revision
        with pytest.raises(Conflict, match="clean has rows that etl has written"):
            created.result()


def _waiting(cell: Cell) -> int:
    (row,) = cell.rows(
        """
        SELECT count(*) AS waiting FROM pg_locks
        WHERE locktype = 'advisory' AND NOT granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        """
    )
    return int(row["waiting"])


def test_a_delete_counts_before_its_put_in_a_batch(client: JobClient, cell: Cell) -> None:
    client.put_job("etl", job())
    cell.rounds(2)
    client.put_job("reads", READER)
    put = BatchWrite(action=BatchAction.PUT_JOB, job="heir", config=CHANGED)
    delete = BatchWrite(action=BatchAction.DELETE_JOB, job="etl")
    assert [each.status for each in client.batch([delete, put])] == [200, 409]


def test_what_makes_the_same_is_no_matter_while_one_never_wrote(client: JobClient, cell: Cell) -> None:
    """A job that is stopped and never ran; the job itself. A job that takes the query which another gives up
    makes other rows than that does then."""
    client.put_job("reads", READER)
    client.put_job("waits", {**job(), "desired_state": "stopped"})
    client.put_job("etl", job())
    assert client.put_job("etl", {**job(), "priority": 2}).notes == []
    swap = [
        BatchWrite(action=BatchAction.PUT_JOB, job=name, config=config, allow_repeats=True)
        for name, config in (("etl", FILTER), ("heir", job()))
    ]
    done = client.batch(swap)
    assert [each.status for each in done] == [200, 200]
    assert done[1].written is not None
    assert "by another query" in done[1].written.notes[0]


def test_a_job_that_moves_twice_leaves_both_places(client: JobClient, cell: Cell) -> None:
    """It was told to write elsewhere, and elsewhere again before a round has seen that: tasks may have begun there."""
    client.put_job("etl", job())
    cell.rounds(2)
    client.put_job("etl", job(topic="between"))
    client.put_job("etl", job(topic="last"))
    cell.rounds(2)
    client.put_job("reads", job({"topic": "between"}, topic="counts"))
    with pytest.raises(Conflict, match="between has rows that etl has written"):
        client.put_job("heir", job(topic="between"))


def test_each_write_of_a_batch_is_told_its_own_readers(client: JobClient, cell: Cell) -> None:
    """Two places that were left: one with seven readers, of which five are named, and one that only its heir reads."""
    gone(client, cell)
    gone(client, cell, "other", job(topic="alone"))
    for number in range(7):
        client.put_job(f"reads-{number}", READER)
    client.put_job("pattern", job({"topic": None, "topic_pattern": f"{TOPIC}|others"}, topic="counts"))
    loops = job({"topic_pattern": "al.*|flights", "topic": None}, topic="alone", allow_loop=True)
    writes = [
        BatchWrite(action=BatchAction.PUT_JOB, job=name, config=config)
        for name, config in (("heir", job()), ("loops", loops), ("etl", job()))
    ]
    heir, loops_done, etl = client.batch(writes)
    assert [heir.status, loops_done.status, etl.status] == [409, 200, 409]
    for refused in (heir, etl):
        assert refused.problem is not None
        assert "late: pattern, reads-0, reads-1, reads-2, reads-3, ..." in refused.problem.detail


def test_a_job_goes_on_from_a_savepoint_of_a_deleted_one(client: JobClient, cell: Cell) -> None:
    """As the refusal says: made stopped, restored, started."""
    _start_restored(client, cell)
    cell.rounds(7)
    client.patch_layer("heir", "base", {"priority": 2}, if_match=2)
    assert cell.running("heir")["config"]["desired_state"] == "running"


def test_who_cancels_the_restore_of_a_job_that_never_ran_is_asked(client: JobClient, cell: Cell, shell: Shell) -> None:
    """1. It was to go on from a savepoint, and was started for that. 2. Without the restore it begins at its inputs'
    beginning: refused, and the restore stays. It may be stopped first, or cancelled with the word."""
    _start_restored(client, cell)
    with pytest.raises(Conflict, match="clean has rows that etl has written, and heir reads flights"):
        client.cancel_restore("heir")
    assert "--allow-repeats" in shell("savepoint", "cancel-restore", "heir").refusal()
    assert len(cell.rows("SELECT FROM restores WHERE job = 'heir'")) == 1
    shell("savepoint", "cancel-restore", "heir", "--allow-repeats").ok()
    client.patch_layer("heir", "base", {"desired_state": "stopped"}, if_match=2)
    client.restore("heir", "last", of="etl", allow_repeats=True)
    client.cancel_restore("heir")


def _start_restored(client: JobClient, cell: Cell) -> None:
    """`heir`, made stopped, goes on from a savepoint of `etl`, which is deleted and has a reader. It is started."""
    with_savepoint(client, cell)
    client.put_job("reads", READER)
    client.delete_job("etl")
    cell.rounds(3)
    client.put_job("heir", {**job(), "desired_state": "stopped"})
    client.restore("heir", "last", of="etl", allow_repeats=True)
    client.patch_layer("heir", "base", {"desired_state": "running"}, if_match=1)
