"""What a host makes of what its JVM says of a quiet task."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.reports import TaskProgress
from penstock.spark.measure.quiet import is_quiet, with_quiet, without_quiet
from tests.support.spark.hosts import job_config, task_spec

SPEC = task_spec("j", job_config("t", 1, {"type": "files", "path": "/out"}))
HELD = SPEC.model_copy(update={"quiescing": True})
ASKED = HELD.model_copy(update={"level_ms": 0})
LEVEL = HELD.model_copy(update={"level_ms": 5_000})
SAID: dict[str, Any] = {"watermarkMillis": 4_000, "caughtUp": True}
QUIET = TaskProgress(batch_id=3, quiesced=True, watermark_ms=4_000, caught_up=True)


@pytest.mark.parametrize(
    ("spec", "said", "found"),
    [
        pytest.param(HELD, SAID, TaskProgress(batch_id=3, quiesced=True), id="nobody asks for the watermark"),
        (ASKED, SAID | {"levelMillis": 0}, QUIET.model_copy(update={"level_ms": 0})),
        (LEVEL, SAID | {"levelMillis": 5_000}, QUIET.model_copy(update={"level_ms": 5_000})),
        pytest.param(LEVEL, SAID, TaskProgress(batch_id=3), id="an earlier order"),
        pytest.param(HELD, SAID | {"levelMillis": 5_000}, TaskProgress(batch_id=3), id="an order that is over"),
        pytest.param(SPEC, SAID, TaskProgress(batch_id=3), id="released"),
        pytest.param(HELD, None, TaskProgress(batch_id=3), id="busy"),
    ],
)
def test_a_task_is_quiet_by_the_order_of_its_spec_only(spec: Any, said: Any, found: TaskProgress) -> None:
    for before in (TaskProgress(batch_id=3), QUIET):
        assert with_quiet(before, spec, said, says_watermark=True) == found
    assert without_quiet(QUIET) == TaskProgress(batch_id=3)


def test_a_task_without_a_batch_is_quiet_too_and_one_that_is_not_says_nothing() -> None:
    assert with_quiet(None, HELD, SAID, says_watermark=True) == TaskProgress(quiesced=True)
    assert with_quiet(None, HELD, None, says_watermark=True) is None


def test_a_task_without_a_batch_says_how_many_records_it_reads_on() -> None:
    """As one that was started again under the order, of which nothing else is known. Only while it reads on."""
    known = with_quiet(None, LEVEL, None, says_watermark=True, records=7)
    assert known == TaskProgress(level_records=7)
    assert with_quiet(known, LEVEL, None, says_watermark=True, records=7) is known
    for spec, said in ((LEVEL, SAID | {"levelMillis": 5_000}), (SPEC, None), (ASKED, None)):
        told = with_quiet(known, spec, said, says_watermark=True, records=7)
        assert getattr(told, "level_records", 0) is None


def test_a_task_that_cannot_be_cut_says_no_watermark() -> None:
    said = SAID | {"levelMillis": 5_000}
    assert with_quiet(QUIET, LEVEL, said, says_watermark=False) == TaskProgress(
        batch_id=3, quiesced=True, level_ms=5_000
    )


def test_what_the_release_before_does_not_know_is_left_out_where_nothing_is_said() -> None:
    """A watermark of 0 is known: the task has none."""
    assert not {"quiesced", "level_ms", "watermark_ms", "caught_up"} & TaskProgress().model_dump().keys()
    said = TaskProgress(quiesced=True, watermark_ms=0).model_dump(mode="json")
    assert (said["quiesced"], said["watermark_ms"], "level_ms" in said) == (True, 0, False)


def test_a_task_has_said_that_it_is_quiet_by_the_present_order() -> None:
    assert not is_quiet(None, HELD)
    assert not is_quiet(TaskProgress(batch_id=3), HELD)
    assert is_quiet(with_quiet(None, HELD, SAID, says_watermark=True), HELD)
    assert not is_quiet(with_quiet(None, HELD, SAID, says_watermark=True), LEVEL), "it reads on since"
