"""Any text may come from outside: an error quotes a bad value, a producer has a strange name. No door refuses it.

Each door is what a service does with such a text, on a real store: what comes back is the text, clean.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text

from penstock.control.loop import RoundEnd
from penstock.control.texts import clean
from penstock.model.alerts import AlertKind
from penstock.model.jobs import JobState
from penstock.model.reports import TaskProgress, TaskReport, TaskReportBatch, TaskState
from penstock.store.alerts import raise_alert
from penstock.store.availability import set_availability
from penstock.store.engine import transaction
from penstock.store.json import as_json
from penstock.store.rounds import RoundNotes
from penstock.tasks.ownership import CORDONED, Member
from penstock.wire.cluster import as_json as as_body
from penstock.wire.host_tasks import HostTaskAnswer
from services.shard_manager.store import members
from services.state_syncer.decide.view import SyncRecord
from services.state_syncer.store.port import Batch
from services.state_syncer.store.states import SyncWrite
from services.task_service.store.reports import save_report
from tests.contract.sync_store_forms import PostgresForm
from tests.support.store.jobs import make_layer

HARD = st.sampled_from(["\0", "a\0b", "\ud800", "\udfff\0\ud800", "\\u0000", "\\\\u0000\0", "\u2028", "'; --"])
TEXTS = HARD | st.text(max_size=20) | st.text(st.characters(categories=["Cs", "Cc", "Ll"]), max_size=8)
FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def one(engine: Engine, statement: str) -> Any:
    with transaction(engine) as connection:
        return connection.execute(text(statement)).scalar_one()


@pytest.fixture
def joined(engine: Engine) -> Engine:
    """A store with container c."""
    with transaction(engine) as connection:
        members.register(connection, Member("c", "one", "http://c", "r", 1.0, 1, 1), empty=True)
    return engine


@FEW
@given(said=TEXTS)
def test_parameters_of_statements(engine: Engine, said: str) -> None:
    """Alone, in an array, in JSON, and as a key of JSON."""
    statement = text("SELECT CAST(:one AS text), CAST(:many AS text[]), CAST(:json AS jsonb)")
    values = {"one": said, "many": [said, "x", None], "json": as_json({said: [said]})}
    with transaction(engine) as connection:
        found = connection.execute(statement, values).one()
    assert tuple(found) == (clean(said), [clean(said), "x", None], {clean(said): [clean(said)]})


@FEW
@given(said=TEXTS)
def test_reports(joined: Engine, said: str) -> None:
    """An error, a watermark, a problem of an input, a topic, a dimension of the load: as a body of a call has them."""
    progress = {"batch_id": 1, "watermark": said, "input_problems": {said: said}, "offsets": {said: {said: 1}}}
    task = TaskReport(
        job="j", index=0, state=TaskState.CRASHED, revision=1, generation=1, restarts=0, epoch=1, crashes=1,
        error=said, load={said: 1.0}, progress=TaskProgress.model_validate(progress),
    )  # fmt: skip
    batch = TaskReportBatch(container="c", incarnation="one", commit_number=1, version=1, tasks=(task,))
    batch = TaskReportBatch.model_validate(as_body(batch))
    with transaction(joined) as connection:
        connection.execute(text("DELETE FROM task_crashes"))
        connection.execute(text("DELETE FROM tasks"))
        save_report(connection, batch)
    assert one(joined, "SELECT error FROM tasks") == clean(said)
    assert one(joined, "SELECT error FROM task_crashes") == clean(said)
    assert one(joined, "SELECT progress->'offsets' FROM tasks") == {clean(said): {clean(said): 1}}


@FEW
@given(said=TEXTS)
def test_alerts(engine: Engine, said: str) -> None:
    with transaction(engine) as connection:
        connection.execute(text("DELETE FROM alerts"))
        raise_alert(connection, AlertKind.TASK_CRASHING, said, said, {said: [said]})
    found = one(engine, "SELECT jsonb_build_array(subject, message, details) FROM alerts")
    assert found == [clean(said), clean(said), {clean(said): [clean(said)]}]


@FEW
@given(said=TEXTS)
def test_what_a_round_of_the_state_syncer_writes_of_a_job(engine: Engine, said: str) -> None:
    form = PostgresForm(engine)
    form.layer("j", "base", make_layer())
    with transaction(engine) as connection:
        connection.execute(text("DELETE FROM sync_state"))
    record = SyncRecord(JobState.FAILED, 1, said, fields=(said,))
    form.store.write(Batch(states=[SyncWrite("j", record, None)]), form.epoch)
    assert one(engine, "SELECT detail FROM sync_state") == clean(said)


@FEW
@given(said=TEXTS)
def test_reasons_and_errors_of_loops(joined: Engine, said: str) -> None:
    with transaction(joined) as connection:
        set_availability(connection, "c", CORDONED, reason=said, author=said)
    assert one(joined, "SELECT availability_reason FROM containers") == clean(said)
    RoundNotes(joined, "l", 1.0, lambda: 0.0).note(RoundEnd(1, 1.0, said))
    assert one(joined, "SELECT error FROM loop_rounds") == clean(said)


@given(said=TEXTS)
def test_answers_of_hosts(said: str) -> None:
    """Their texts are clean as soon as they are read."""
    answer = HostTaskAnswer.model_validate({"state": "failed", "error": said, "progress": said})
    assert (answer.error, answer.progress) == (clean(said), clean(said))
