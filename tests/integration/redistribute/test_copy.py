"""State that is copied while a job runs, and brought up to date after its stop."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.control.errors import BrokenCheckpoint, Fenced
from penstock.spark.redistribute import copy, engine
from penstock.spark.redistribute.copy import copy_state
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.manifest import MANIFEST
from penstock.spark.redistribute.move import StateMover
from penstock.spark.redistribute.new import NewGeneration
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import CopyRequest
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, Keys, job_config, output_topic

SUM = {"sql": "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"}
WINDOW = {"sql": "SELECT window.start AS w, k, count(*) AS c FROM events GROUP BY window(at, '20 seconds'), k"}
OUTER = {
    "sql": "SELECT a.k, a.v, b.v AS bv FROM events a LEFT JOIN others b "
    "ON a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 4 SECONDS"
}


def make_job(runtime: Runtime, events: Events, query: dict[str, str], **more: Any) -> Job:
    topics = {"events": events.topic} | more.pop("topics", {})
    output = more.pop("output", None) or output_topic(events.bootstrap)
    return Job(runtime, job_config(topics, "spark", output, query=query, **more))


@pytest.fixture
def summing(runtime: Runtime, events: Events) -> Job:
    """Two tasks that have read rows."""
    events.add_range(0, 300)
    job = make_job(runtime, events, SUM, output_mode="update", task_count=2)
    job.run()
    return job


def finish(job: Job, events: Events) -> None:
    """Reads on in the new generation; what the job wrote is what an unsplit run writes."""
    events.add_range(450, 600)
    job.run()
    assert job.last_rows("k") == job.unsplit().last_rows("k")


@pytest.mark.long
def test_windows_that_close_between_copy_and_stop_are_gone_from_the_copy_too(runtime: Runtime, events: Events) -> None:
    """1. Copied. 2. Rows come: windows close, so that rows of state go. 3. To one task of two threads; read on."""
    events.add_range(0, 300)
    job = make_job(runtime, events, WINDOW, state_backend="rocksdb", task_count=2)
    job.run()
    change = {"task_count": 1, "threads_per_task": 2}
    copied = job.copy(**change)
    events.add_range(300, 450)
    job.run()
    report = job.rescale(**change)
    assert copied.rows > 0
    assert report.changed_rows
    events.add_far_future()
    job.run()
    assert job.rows() == job.unsplit().rows()


@pytest.mark.long
def test_all_four_stores_of_a_join_are_brought_up_to_date(runtime: Runtime, events: Events, keys: Keys) -> None:
    others = Events(events.bootstrap, make_topic(events.bootstrap, KEY_GROUPS), keys)
    job = make_job(runtime, events, OUTER, topics={"others": others.topic}, task_count=1)
    for number, each in enumerate((events, others)):
        each.add_range(number, 300)
    job.run()
    job.copy(task_count=2)
    for number, each in enumerate((events, others)):
        each.add_range(300 + number, 600)
    job.run()
    assert job.rescale(task_count=2).changed_rows
    for each in (events, others):
        each.add_far_future()
    job.run()
    assert job.rows() == job.unsplit().rows()


@pytest.mark.long
def test_what_changed_since_the_copy_moves_after_the_stop(runtime: Runtime, events: Events) -> None:
    """1. A task's state is copied. 2. The task reads on. 3. Only what changed moves, to two tasks; they read on."""
    events.add_range(0, 300)
    job = make_job(runtime, events, SUM, output_mode="update", task_count=1)
    job.run()
    assert job.copy(task_count=2).rows == 60
    events.add_range(300, 330)
    job.run()
    report = job.rescale(task_count=2)
    assert 0 < report.changed_rows < report.state_rows == 60
    events.add_range(330, 600)
    job.run()
    assert job.last_rows("k") == job.unsplit().last_rows("k")


@pytest.mark.long
def test_rounds_of_changes_while_rows_come(
    runtime: Runtime, events: Events, summing: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. During the copy the tasks read on, twice, and delete the versions that it began with. 2. Nothing changes after
    it. 3. The new tasks begin with batch 2, and another rescale copies their state from there."""
    more = iter([(300, 375), (375, 450)])
    begun_with = [path for index in range(2) for path in summing.checkpoint(index).glob("state/*/*/*.delta")]
    move, change = StateMover.move, StateMover.change

    def meanwhile(work: Any, *arguments: Any) -> Any:
        done = work(*arguments)
        for lo, hi in [found] if (found := next(more, None)) else []:
            events.add_range(lo, hi)
            summing.run()
            if hi == 450:
                for path in begun_with:
                    path.unlink()
        return done

    monkeypatch.setattr(StateMover, "move", lambda self: meanwhile(move, self))
    monkeypatch.setattr(StateMover, "change", lambda self, since: meanwhile(change, self, since))
    monkeypatch.setattr(copy, "FEW_ROWS", 0)
    copied = summing.copy(task_count=3)
    assert (copied.rows, copied.rounds, len(copied.changed)) == (60, 3, 2)
    report = summing.rescale(task_count=3)
    assert (report.state_rows, report.changed_rows) == (60, 0)
    assert (summing.checkpoint(0) / "commits/2").exists()
    assert not list(summing.checkpoint(0).parent.glob("PINNED-*"))
    summing.copy(task_count=2)
    assert summing.rescale(task_count=2).changed_rows == 0
    finish(summing, events)


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param("changes are gone", marks=pytest.mark.long),
        *(pytest.param(why, marks=pytest.mark.long) for why in ("another target", "half a copy", "not readable")),
    ],
)
def test_what_does_not_fit_is_moved_as_a_whole(
    runtime: Runtime, events: Events, summing: Job, monkeypatch: pytest.MonkeyPatch, spoilt: str
) -> None:
    """1. Copied, and spoilt. 2. Rows come. 3. All state moves after the stop, and the copy leaves nothing behind."""
    folder = summing.checkpoint(0).parent.parent / "g2"
    if spoilt == "half a copy":
        monkeypatch.setattr(NewGeneration, "note_copy", _fail)
        with pytest.raises(KeyboardInterrupt):
            summing.copy(task_count=3)
    else:
        summing.copy(task_count=3, threads_per_task=2 if spoilt == "another target" else 1)
    events.add_range(300, 450)
    summing.run()
    if spoilt == "not readable":
        (folder / MANIFEST).write_text("{")
    elif spoilt == "changes are gone":
        monkeypatch.setattr(StateMover, "change", _changes_are_gone)
    report = summing.rescale(task_count=3)
    assert (report.state_rows, report.changed_rows) == (60, None)
    assert (report.uncopied is None) == (spoilt in ("half a copy", "not readable"))
    assert not (folder / MANIFEST).exists()
    finish(summing, events)


@pytest.mark.long
def test_a_redistribution_that_died_at_the_changes_begins_anew(
    runtime: Runtime, events: Events, summing: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. Copied; rows come. 2. The host dies after it wrote the changes. 3. A late copy is fenced. 4. Asked again, the
    redistribution uses no copy. 5. Late attempts touch nothing once the new tasks have started."""
    summing.copy(task_count=3)
    events.add_range(300, 450)
    summing.run()
    with monkeypatch.context() as patch:
        patch.setattr(engine._Redistribution, "_plan", _fail)
        with pytest.raises(KeyboardInterrupt):
            redistribute(runtime, summing.target(task_count=3).model_copy(update={"stopped_at": 5}))
    request = summing.target(task_count=3)
    with pytest.raises(Fenced, match="has an owner of commit"):
        summing.copy(task_count=3)
    report = summing.rescale(task_count=3)
    assert report.changed_rows is None
    finish(summing, events)
    for late in (
        partial(copy_state, runtime, CopyRequest(job=summing.name, source=request.source, target=request.target)),
        partial(redistribute, runtime, request),
    ):
        with pytest.raises(Fenced, match="a task that was started"):
            late()


@pytest.mark.long
def test_a_copy_may_be_repeated_and_fences_the_one_before(runtime: Runtime, events: Events, summing: Job) -> None:
    summing.copy(task_count=3)
    events.add_range(300, 450)
    summing.run()
    copied = summing.copy(task_count=3)
    assert copied.rounds == 1
    assert summing.rescale(task_count=3).changed_rows == 0
    finish(summing, events)


@pytest.mark.long
def test_the_files_sink_finds_a_log_of_all_batches_before_the_first(
    runtime: Runtime, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is compacted every third batch, and the new task's first batch is number 2."""
    events.add_range(0, 300)
    output = {"type": "files", "path": str(tmp_path / "out")}
    compact_often = {"spark.sql.streaming.fileSink.log.compactInterval": "2"}
    job = make_job(runtime, events, WINDOW, output=output, spark_settings=compact_often, task_count=1)
    job.run()
    job.copy(task_count=2)
    events.add_range(300, 600)
    job.run()
    assert job.rescale(task_count=2).changed_rows
    for batch in range(2, 4):
        events.add_range(300 * batch, 300 * (batch + 1))
        job.run()
    logs = sorted(
        path.name for path in (tmp_path / "out/g2/task-0/_spark_metadata").iterdir() if path.suffix == ".compact"
    )
    assert logs[:2] == ["1.compact", "3.compact"]


@pytest.mark.long
def test_a_files_output_forgets_the_batches_that_an_attempt_had_planned(
    runtime: Runtime, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A copy fits, so the new task's first batch is number 1. 2. The host dies before the commit. 3. Asked again
    it moves all state, with the first batch 0. 4. The new tasks start and write."""
    events.add_range(0, 300)
    job = make_job(runtime, events, WINDOW, output={"type": "files", "path": str(tmp_path / "out")}, task_count=1)
    job.run()
    job.copy(task_count=2)
    events.add_range(300, 600)
    job.run()
    with monkeypatch.context() as patch:
        patch.setattr(NewGeneration, "commit_batch", _fail)
        with pytest.raises(KeyboardInterrupt):
            redistribute(runtime, job.target(task_count=2))
    assert (tmp_path / "out/g2/task-0/_spark_metadata/1").exists()
    assert job.rescale(task_count=2).changed_rows is None
    events.add_range(600, 900)
    job.run()
    assert (tmp_path / "out/g2/task-0/_spark_metadata/1").read_text() != "v1"


def _fail(*_: Any) -> None:
    raise KeyboardInterrupt


def _changes_are_gone(*_: Any) -> int:
    raise BrokenCheckpoint("the file 3.delta is missing")
