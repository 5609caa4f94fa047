"""What a webhook gets: shapes, signatures, times between attempts."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from penstock.model.alerts import AlertKind
from services.job_service.notify.messages import (
    DELIVERY,
    SIGNATURE,
    Event,
    Links,
    Message,
    Request,
    request_of,
    wait_seconds,
)
from services.job_service.notify.targets import Shape, Target
from services.job_service.settings import JobServiceSettings

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
OPENED = Message(7, Event.OPENED, AlertKind.TASK_CRASHING, "etl", "task 0: <b> & c\n  at x.py:3", AT, None)
ENDED = Message(6, Event.RESOLVED, AlertKind.LOOP_STALLED, "state_syncer", "no round", AT, AT + timedelta(minutes=5))
SECRET = "a secret of the tests"


def request(shape: Shape, *messages: Message, console_url: str = "", runbook_url: str = "", **target: Any) -> Request:
    made = Target(name="pager", shape=shape, url=SecretStr("https://hook.example/x/"), **target)
    return request_of(made, messages, delivery="cell-3", links=Links(console_url, runbook_url), now=AT)


def test_alertmanager_gets_the_same_labels_when_an_alert_opens_and_when_it_ends() -> None:
    """An end far away keeps Alertmanager from ending the alert by itself."""
    made = request(Shape.ALERTMANAGER, OPENED, ENDED, console_url="https://console/")
    assert made.url == "https://hook.example/x/api/v2/alerts"
    opened, ended = json.loads(made.body)
    labels = {"alertname": "task_crashing", "subject": "etl", "service": "penstock", "severity": "page"}
    assert opened["labels"] == labels
    assert (opened["startsAt"], opened["endsAt"]) == ("2026-01-01T12:00:00+00:00", "2027-01-01T12:00:00+00:00")
    assert opened["generatorURL"] == "https://console/jobs/etl"
    assert opened["annotations"]["summary"] == OPENED.message
    assert opened["annotations"]["runbook"] == "services/ALERTS.md#task_crashing"
    assert (ended["endsAt"], ended["generatorURL"]) == ("2026-01-01T12:05:00+00:00", "https://console/alerts")
    reopened = OPENED._replace(event=Event.RESOLVED, cleared_at=AT)
    assert json.loads(request(Shape.ALERTMANAGER, reopened).body)[0]["labels"] == opened["labels"]


def test_slack_gets_one_text_in_which_nothing_of_others_is_markup() -> None:
    text = json.loads(request(Shape.SLACK, OPENED, ENDED).body)["text"]
    assert text.splitlines() == [
        "*Penstock: 1 opened, 1 resolved*",
        ":red_circle: task_crashing etl: task 0: &lt;b&gt; &amp; c (what to do: services/ALERTS.md#task_crashing)",
        ":white_check_mark: resolved loop_stalled state_syncer: no round",
    ]
    linked = json.loads(request(Shape.SLACK, OPENED, console_url="https://console").body)["text"]
    assert "<https://console/jobs/etl|task_crashing etl>" in linked
    many = json.loads(request(Shape.SLACK, *[OPENED] * 100).body)["text"]
    assert many.endswith("and 70 more")


def test_plain_json_has_each_alert_with_its_number() -> None:
    found = json.loads(request(Shape.JSON, OPENED, console_url="https://console").body)
    assert (found["version"], found["delivery"]) == (1, "cell-3")
    assert found["alerts"][0] == OPENED.as_json() | {
        "url": "https://console/jobs/etl",
        "severity": "page",
        "runbook": "services/ALERTS.md#task_crashing",
    }
    assert Message.of_json(ENDED.as_json()) == ENDED
    assert Message.of_json(OPENED.as_json()) == OPENED


@pytest.mark.parametrize("base", ["https://git.example/penstock", "https://git.example/penstock/"])
def test_with_a_base_address_each_shape_links_to_the_row_of_the_kind(base: str) -> None:
    url = "https://git.example/penstock/services/ALERTS.md#task_crashing"
    shown = {shape: json.loads(request(shape, OPENED, runbook_url=base).body) for shape in Shape}
    assert shown[Shape.ALERTMANAGER][0]["annotations"]["runbook"] == url
    assert shown[Shape.SLACK]["text"].endswith(f"(<{url}|what to do>)")
    assert shown[Shape.JSON]["alerts"][0]["runbook"] == url


def test_a_signature_can_be_checked_by_who_has_the_secret() -> None:
    made = request(Shape.JSON, OPENED, secret=SecretStr(SECRET))
    at, given = (part.partition("=")[2] for part in made.headers[SIGNATURE].split(","))
    assert at == str(int(AT.timestamp()))
    assert given == hmac.new(SECRET.encode(), f"{at}.".encode() + made.body, hashlib.sha256).hexdigest()
    assert made.headers[DELIVERY] == "cell-3"
    assert SIGNATURE not in request(Shape.JSON, OPENED).headers


def test_attempts_come_further_and_further_apart() -> None:
    assert [wait_seconds(attempts) for attempts in (1, 2, 3, 8, 9, 1000)] == [2, 4, 8, 256, 300, 300]


PAGER = {"name": "pager", "shape": "json", "url": "https://hook.example"}


@pytest.mark.parametrize(
    ("targets", "told"),
    [
        ([PAGER | {"url": "hook.example"}], "http or https"),
        ([PAGER | {"url": "ftp://hook.example"}], "http or https"),
        ([PAGER | {"shape": "pigeon"}], "alertmanager"),
        ([PAGER | {"secret": "short"}], "16"),
        ([PAGER | {"kinds": ["nonsense"]}], "task_crashing"),
        ([PAGER, PAGER], "two targets have the name pager"),
        ([PAGER | {"shade": 1}], "shade"),
    ],
    ids=range(7),
)
def test_wrong_targets_are_refused_by_name(targets: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(ValidationError, match=told) as refused:
        JobServiceSettings(notify_targets=targets)
    assert "hook.example" not in str(refused.value)


def test_targets_come_as_json_and_show_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_NOTIFY_TARGETS", json.dumps([PAGER | {"secret": SECRET}]))
    found = JobServiceSettings()
    assert found.notify_targets[0].url.get_secret_value() == PAGER["url"]
    assert SECRET not in repr(found)
    assert PAGER["url"] not in repr(found)
