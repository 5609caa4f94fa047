"""Each form: what it does, and what is said beside the field when something is wrong; what was typed stays."""

from __future__ import annotations

import re

import pytest

from penstock.wire.job_client import JobClient
from tests.support.console.fleet import fill
from tests.support.console.service import User, hidden_of
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.job_service.stored import sync

READER = {**CONFIG, "output": {"type": "kafka", "topic": "counts"}}
SOURCE = CONFIG["inputs"]["flights"]
CHANGE = "/jobs/etl/change"


@pytest.fixture(autouse=True)
def _job(client: JobClient) -> None:
    client.put_job("etl", {**CONFIG, "task_count": 4}, verify=False)


def plan(user: User, **form: str) -> str:
    answer = user.post("/jobs/etl/plan", {"reason": "a test", **form}, CHANGE)
    assert answer.status_code == 200, answer.text[-2000:]
    return answer.text


def confirm(user: User, page: str) -> str:
    answer = user.http.post("/jobs/etl/confirm", data=hidden_of(page))
    assert answer.status_code == 303, answer.text[-2000:]
    return answer.headers["location"]


def test_a_plan_says_what_else_the_layer_sets_and_when_it_ends(user: User, client: JobClient) -> None:
    """1. The layer is empty: one end is enough. 2. It sets another field, which never ends."""
    asked = {"what": "override", "changes": "priority = 2", "layer": "oncall", "ends": "30m"}
    assert "whole_layer" not in plan(user, **asked)
    written = {"slo": {"max_lag_seconds": 300.0}}
    client.put_layer("etl", "oncall", written, if_match=0, expires_in_seconds=None, reason="a test", verify=False)
    page = plan(user, **asked)
    assert "The layer sets slo.max_lag_seconds now, and never ends" in page
    assert 'name="whole_layer"' in page


def test_what_may_repeat_rows_has_a_choice_with_its_refusal(user: User, client: JobClient) -> None:
    """1. A job that never ran is to be started, and another one that makes the same rows runs: refused, with a choice
    beside it. 2. With the choice the plan is shown, says so, and is made."""
    waits = {**CONFIG, "desired_state": "stopped"}
    client.put_job("heir", waits, verify=False)
    client.put_job("reads", {**READER, "inputs": {"flights": {**SOURCE, "topic": "clean"}}}, verify=False)
    change = "/jobs/heir/change"
    assert "allow_repeats" not in user.get(change)
    asked = {"what": "start", "reason": "a test"}
    answer = user.post("/jobs/heir/plan", asked, change)
    assert answer.status_code == 409
    assert 'name="allow_repeats"' in answer.text
    assert "These jobs read there and do not read anew" in answer.text
    page = user.post("/jobs/heir/plan", {**asked, "allow_repeats": "yes"}, change).text
    assert "Rows may come twice." in page
    done = user.http.post("/jobs/heir/confirm", data=hidden_of(page))
    assert (done.status_code, client.get_job("heir").config["desired_state"]) == (303, "running")


@pytest.mark.parametrize(
    ("path", "page", "form"),
    [
        ("drop", "configuration", {"version": "2"}),
        ("revert", "history", {"version": "1", "present": "2", "ends": "30m"}),
    ],
)
def test_a_layer_that_hid_an_output_is_taken_away_with_the_choice(
    user: User, client: JobClient, path: str, page: str, form: dict[str, str]
) -> None:
    """1. An override has moved the output, and another job makes the same rows at the old place. To drop it, or set it
    back to what it was, is refused, with a choice beside it and what was typed. 2. An old page is refused on a page of
    its own. 3. With the choice it is done."""
    client.put_layer("etl", "oncall", {"priority": 7}, if_match=0, verify=False)
    client.put_layer("etl", "oncall", {"output": {"topic": "moved"}}, if_match=1, verify=False)
    client.put_job("heir", CONFIG, verify=False)
    client.put_job("reads", {**READER, "inputs": {"flights": {**SOURCE, "topic": "clean"}}}, verify=False)
    where, asked = f"/jobs/etl/layers/oncall/{path}", {**form, "reason": "it is over"}
    assert "allow_repeats" not in user.get(f"/jobs/etl/{page}")
    answer = user.post(where, asked, f"/jobs/etl/{page}")
    assert answer.status_code == 409
    assert 'name="allow_repeats"' in answer.text
    assert "heir reads flights too, makes the same rows" in answer.text
    assert 'value="it is over"' in answer.text
    assert client.get_layer("etl", "oncall").version == 2
    old = user.post(where, {**asked, "version": "1", "present": "1"})
    assert (old.status_code, "allow_repeats" in old.text) == (409, False)
    assert user.post(where, {**asked, "allow_repeats": "yes"}).status_code == 303
    assert client.get_job("etl").config["output"]["topic"] == "clean"


def test_an_override_shows_its_plan_and_is_made_when_it_is_confirmed(user: User, client: JobClient) -> None:
    page = plan(user, what="override", changes="slo.max_lag_seconds = 300", layer="oncall", ends="30m")
    assert "slo.max_lag_seconds" in page
    assert "<ins>300" in page
    assert "Ends after 30m" in page
    assert client.get_layer("etl", "oncall").version == 0, "a plan writes nothing"
    assert confirm(user, page).startswith("/jobs/etl?done=written")
    layer = client.get_layer("etl", "oncall")
    assert (layer.config, layer.reason, layer.author) == ({"slo": {"max_lag_seconds": 300}}, "a test", "admin")
    assert layer.expires_at is not None
    assert layer.written_at is not None
    assert 1790 < (layer.expires_at - layer.written_at).total_seconds() < 1810
    assert "written to oncall as revision" in user.get(confirm(user, page))  # sent twice, answered as the first


def test_a_plan_is_not_carried_out_once_the_layer_has_changed(user: User, client: JobClient) -> None:
    page = plan(user, what="override", changes="priority = 3", layer="oncall", ends="2h")
    client.put_layer("etl", "oncall", {"priority": 7}, if_match=0, verify=False)
    answer = user.http.post("/jobs/etl/confirm", data=hidden_of(page))
    assert answer.status_code == 422
    assert "if_match" in answer.text
    assert "&#34;priority&#34;: 3" in answer.text, "what was typed stays"
    assert client.get_layer("etl", "oncall").config == {"priority": 7}


def test_a_rescale_a_stop_and_a_start(user: User, client: JobClient) -> None:
    confirm(user, plan(user, what="rescale", task_count="8", ends="never"))
    assert client.get_layer("etl", "oncall").config == {"task_count": 8}
    confirm(user, plan(user, what="stop", ends="never"))
    assert client.get_job("etl").config["desired_state"] == "stopped"
    assert 'value="start"' in user.get(CHANGE)
    confirm(user, plan(user, what="start"))
    job = client.get_job("etl")
    assert (job.config["desired_state"], job.config["task_count"]) == ("running", 8)


def test_a_restart_and_a_release(service: RunningJobService, user: User, client: JobClient) -> None:
    before = client.get_job("etl")
    assert user.post("/jobs/etl/restart", {"reason": "stuck"}, CHANGE).status_code == 303
    assert client.get_job("etl").restarts == before.restarts + 1
    refused = user.post("/jobs/etl/release", {"reason": "again"}, CHANGE)
    assert refused.status_code == 422
    assert 'role="alert"' in refused.text
    sync(service, "quarantined", before.revision + 1)
    assert user.post("/jobs/etl/release", {"reason": "again"}, CHANGE).status_code == 303
    assert [entry.reason for entry in client.history("etl").entries[:2]] == ["again", "stuck"]


@pytest.mark.parametrize(
    ("path", "form", "field", "kept"),
    [
        ("plan", {"what": "override", "changes": "nonsense", "ends": "7h"}, "override-changes", "nonsense"),
        ("plan", {"what": "override", "changes": "no_such = 1", "ends": "7h"}, "override-changes", 'value="7h"'),
        ("plan", {"what": "override", "changes": "task_count = 0"}, "override-changes", "task_count = 0"),
        ("plan", {"what": "override", "changes": "priority = 1", "ends": "soon"}, "override-ends", "priority = 1"),
        ("plan", {"what": "override", "changes": "priority = 1", "reason": " "}, "override-reason", "priority = 1"),
        ("plan", {"what": "rescale", "task_count": "many"}, "rescale-task_count", 'value="many"'),
        ("plan", {"what": "rescale", "task_count": "9"}, "rescale-task_count", 'value="9"'),
        ("plan", {"what": "rescale", "task_count": "2", "ends": "x"}, "rescale-ends", 'value="2"'),
        ("plan", {"what": "stop", "ends": "x"}, "stop-ends", 'value="x"'),
        ("plan", {"what": "stop", "reason": ""}, "stop-reason", ""),
        ("restart", {"reason": ""}, "restart-reason", ""),
        ("release", {"reason": "x" * 2001}, "release-reason", "xxxx"),
        ("savepoint", {"name": "Not A Name"}, "savepoint-name", "Not A Name"),
        ("savepoint", {"name": "fine", "reason": ""}, "savepoint-reason", 'value="fine"'),
    ],
)
def test_bad_input_is_told_beside_the_field_and_what_was_typed_stays(
    user: User, client: JobClient, path: str, form: dict[str, str], field: str, kept: str
) -> None:
    before = client.get_job("etl").revision
    answer = user.post(f"/jobs/etl/{path}", {"reason": "a test", "layer": "oncall", **form}, CHANGE)
    assert answer.status_code in (409, 422), answer.text[-500:]
    assert f'id="{field}-error"' in answer.text
    assert f'aria-describedby="{field}-error"' in answer.text
    assert kept in answer.text
    assert client.get_job("etl").revision == before


def test_a_layer_is_dropped_and_set_back(user: User, client: JobClient) -> None:
    client.put_layer("etl", "oncall", {"priority": 7}, if_match=0, verify=False)
    client.put_layer("etl", "oncall", {"priority": 8}, if_match=1, verify=False)
    history = user.get("/jobs/etl/history")
    assert re.search("Ends after.*?empty: .*?in 24 h.*?, as at this version", history, re.S)
    form = {"version": "1", "present": "2", "reason": "7 was right"}
    assert user.post("/jobs/etl/layers/oncall/revert", {**form, "ends": "soon"}).status_code == 400
    done = user.post("/jobs/etl/layers/oncall/revert", form)
    assert done.status_code == 303
    expires_at = client.get_layer("etl", "oncall").expires_at
    assert f"It ends at {expires_at:%Y-%m-%d %H:%M:%S} UTC" in user.get(done.headers["location"])
    assert client.get_layer("etl", "oncall").config == {"priority": 7}
    form = {"version": "2", "reason": "old page"}
    assert user.post("/jobs/etl/layers/oncall/drop", form).status_code == 409
    assert user.post("/jobs/etl/layers/oncall/drop", {"version": "3", "reason": ""}).status_code == 400
    assert user.post("/jobs/etl/layers/oncall/drop", {"version": "x", "reason": "x"}).status_code == 400
    assert client.get_layer("etl", "oncall").config == {"priority": 7}
    assert user.post("/jobs/etl/layers/oncall/drop", {"version": "3", "reason": "over"}).status_code == 303
    assert client.get_layer("etl", "oncall").config is None


def test_a_container_is_cordoned_drained_and_opened(service: RunningJobService, user: User, client: JobClient) -> None:
    fill(service)
    where = "/containers/container-03"
    for action, availability in (("cordon", "cordoned"), ("drain", "draining"), ("uncordon", "open")):
        assert user.post(where, {"action": action, "reason": "new disk"}).status_code == 303
        assert client.container("container-03").availability == availability
    answer = user.post(where, {"action": "explode", "reason": "kept"})
    assert answer.status_code == 422
    assert 'id="action-error"' in answer.text
    assert 'value="kept"' in answer.text
    answer = user.post(where, {"action": "drain", "reason": ""})
    assert answer.status_code == 422
    assert 'id="container-reason-error"' in answer.text
    assert client.container("container-03").availability == "open"


def test_alerts_are_acknowledged_and_silenced(service: RunningJobService, user: User, client: JobClient) -> None:
    fill(service)
    (alert,) = client.alerts(kind="job_lagging").alerts
    answer = user.post(f"/alerts/{alert.id}/acknowledge", {"reason": ""})
    assert answer.status_code == 422
    assert f'id="ack-{alert.id}-reason-error"' in answer.text
    assert user.post(f"/alerts/{alert.id}/acknowledge", {"reason": "mine"}).status_code == 303
    assert "admin is on it" in user.get("/alerts")
    assert user.post(f"/alerts/{alert.id}/leave", {}).status_code == 303
    assert client.alerts(kind="job_lagging").alerts[0].acknowledged_by is None

    form = {"kind": "job_lagging", "subject": "clicks-*", "ends": "1h", "reason": "a release"}
    assert user.post("/silences", form).status_code == 303
    assert client.alerts(kind="job_lagging").alerts == []
    (silence,) = client.silences().silences
    assert (silence.subject, silence.reason) == ("clicks-*", "a release")
    assert user.post(f"/silences/{silence.id}/end", {}).status_code == 303
    assert client.silences().silences == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "nonsense"}, "silence-kind"),
        ({"ends": ""}, "silence-ends"),
        ({"ends": "900d"}, "silence-ends"),
        ({"reason": ""}, "silence-reason"),
        ({"subject": "x" * 301}, "silence-subject"),
        ({"kind": "", "subject": "*"}, "silence-subject"),
    ],
)
def test_bad_input_of_a_silence(user: User, client: JobClient, change: dict[str, str], field: str) -> None:
    form = {"kind": "job_lagging", "subject": "my-job", "ends": "1h", "reason": "a release", **change}
    answer = user.post("/silences", form)
    assert answer.status_code == 422
    assert f'id="{field}-error"' in answer.text
    assert client.silences().silences == []
