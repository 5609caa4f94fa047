"""One trace for each revision, as a collector gets it from the processes of a stack."""

from __future__ import annotations

import pytest

from penstock.control.process import wait_until
from penstock.wire.traces import WRITTEN, trace_id
from tests.support.job_service.webhook import Webhook
from tests.support.stack.rows import RowJob
from tests.support.stack.spans import Span, spans_of

PROCESSES = {f"penstock-{name}" for name in ("job_service", "state_syncer", "task_service", "task_manager")}
STARTS = "task starts"
SENT_S = 20.0


@pytest.mark.long
def test_a_change_is_one_trace_from_the_call_to_the_start_of_its_tasks(rows: RowJob, collector: Webhook) -> None:
    """1. A change restarts both tasks. 2. Its trace has spans of every process on the way, and of the start of each
    task. 3. That of the write is the first one, and all others are below it. 4. The next change is a trace of its
    own."""
    before = rows.change()
    rows.wait_converged()
    after = rows.change()
    rows.wait_converged()
    assert {trace_id(before.revision), trace_id(after.revision)} == {
        _assert_whole(rows, collector, trace_id(each.revision)) for each in (before, after)
    }


def _assert_whole(rows: RowJob, collector: Webhook, trace: str) -> str:
    starts = {f"{rows.name}/0", f"{rows.name}/1"}

    def has_come() -> bool:
        seen = spans_of(collector, trace)
        return {span.service for span in seen} >= PROCESSES and starts == {span.task for span in seen if _starts(span)}

    wait_until(has_come, SENT_S, f"the spans of {trace} to come")
    found = spans_of(collector, trace)
    (first,) = (span for span in found if span.parent is None)
    assert (first.service, first.name) == ("penstock-job_service", WRITTEN)
    assert {span.parent for span in found} == {None, first.own}
    assert len({span.own for span in found}) == len(found)
    return first.trace


def _starts(span: Span) -> bool:
    return (span.service, span.name) == ("penstock-task_manager", STARTS)
