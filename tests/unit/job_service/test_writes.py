"""Writes as decisions: from what is stored and what is asked to a change or a refusal."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.control.errors import (
    Conflict,
    InvalidConfig,
    NotFound,
    PreconditionRequired,
    UserError,
    VersionConflict,
)
from penstock.model.jobs import Action, LayerRow, StoredJob, StoredLayer
from services.job_service.layer_expiry import Expiry
from services.job_service.writes import Precondition, Write, batches, decide

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LAYERS = {
    "base": LayerRow("base", 0),
    "canary": LayerRow("canary", 150),
    "scaler": LayerRow("scaler", 200),
    "oncall": LayerRow("oncall", 300, 3600),
}
CONFIG: dict[str, Any] = {
    "query": {"sql": "SELECT * FROM flights"},
    "inputs": {"flights": {"topic": "flights", "key_groups": 8, "value_schema": "a INT"}},
    "output": {"type": "kafka", "topic": "clean"},
    "owner": "ann",
}


def stored(
    layer: str, config: dict[str, Any] | None, version: int = 1, expires_at: datetime | None = None
) -> StoredLayer:
    return StoredLayer(layer, config, version, 1, "ann", "", NOW, expires_at)


def job(*layers: StoredLayer, running: Any = None, deleting: bool = False) -> StoredJob:
    present = {layer.layer: layer for layer in (stored("base", CONFIG), *layers)}
    return StoredJob("etl", 1, 0, deleting, "ann", NOW, running, present)


CLAIMED = StoredJob("etl", 0, 0, False, "", NOW)
ONCALL = stored("oncall", {"priority": 1, "labels": {"a": "1"}}, version=4, expires_at=NOW + timedelta(hours=2))


def write(action: Action, layer: str = "oncall", config: Any = None, if_match: int | None = None, **more: Any) -> Write:
    return Write(action, "etl", "ann", layer, config, precondition=Precondition(if_match), **more)


FILES = {"type": "files", "path": "file:/out", "format": "json"}


@pytest.mark.parametrize(
    ("asked", "present", "action", "new"),
    [
        (write(Action.PUT, config={"priority": 2}, if_match=0), job(), Action.PUT, {"priority": 2}),
        (write(Action.PUT, config={"priority": 2}, if_match=4), job(ONCALL), Action.PUT, {"priority": 2}),
        (
            write(Action.PATCH, config={"priority": 2}, if_match=4),
            job(ONCALL),
            Action.PATCH,
            {"priority": 2, "labels": {"a": "1"}},
        ),
        (write(Action.PATCH, config={"priority": None}, if_match=4), job(ONCALL), Action.PATCH, {"labels": {"a": "1"}}),
        (write(Action.PATCH, config={"priority": 2}, if_match=0), job(), Action.PATCH, {"priority": 2}),
        (write(Action.DROP, if_match=4), job(ONCALL), Action.DROP, None),
        (write(Action.REVERT, config={"priority": 9}, if_match=4), job(ONCALL), Action.REVERT, {"priority": 9}),
        (write(Action.REVERT, config=None, if_match=4), job(ONCALL), Action.REVERT, None),
        (write(Action.CREATE, "base", CONFIG), CLAIMED, Action.CREATE, CONFIG),
        (write(Action.CREATE, "base", CONFIG), job(), Action.PUT, CONFIG),
        (write(Action.CREATE, "base", CONFIG, if_match=1), job(), Action.PUT, CONFIG),
    ],
)
def test_what_a_write_makes_of_a_layer(asked: Write, present: StoredJob, action: Action, new: Any) -> None:
    change = decide(asked, present, LAYERS, NOW)
    assert change is not None
    assert (change.action, change.new, change.old) == (action, new, present.config(asked.layer))
    assert (change.layer, change.owner, change.author) == (asked.layer, "ann", "ann")


@pytest.mark.parametrize(
    ("asked", "present", "error", "field", "rule"),
    [
        (write(Action.PUT, config={}), job(), PreconditionRequired, "If-Match", "required"),
        (write(Action.DROP), job(ONCALL), PreconditionRequired, "If-Match", "required"),
        (write(Action.PUT, config={}, if_match=3), job(ONCALL), VersionConflict, None, "if_match"),
        (write(Action.PUT, config={}, if_match=1), job(), VersionConflict, None, "if_match"),
        (write(Action.DROP, if_match=0), job(), NotFound, "layer", "present"),
        (write(Action.DROP, if_match=5), job(stored("oncall", None, 5)), NotFound, "layer", "present"),
        (write(Action.DROP, "base", if_match=1), job(), InvalidConfig, "query", "required"),
        (write(Action.PUT, "nowhere", {}, 0), job(), NotFound, "layer", "known"),
        (write(Action.PUT, config={}, if_match=0), None, NotFound, "job", "known"),
        (write(Action.PUT, config={}, if_match=0), CLAIMED, NotFound, "job", "known"),
        (write(Action.RESTART), None, NotFound, "job", "known"),
        (write(Action.PUT, config={}, if_match=0), job(deleting=True), Conflict, "job", "deleting"),
        (write(Action.RELEASE), job(deleting=True), Conflict, "job", "deleting"),
        (write(Action.PUT, config={"task_count": 9}, if_match=0), job(), InvalidConfig, "task_count", "key_groups"),
        (
            write(Action.PUT, config={"output_mode": "update"}, if_match=0),
            job(running=CONFIG),
            InvalidConfig,
            "output_mode",
            "forbidden_change",
        ),
        (
            write(Action.PUT, "base", {**CONFIG, "output": {**FILES, "format": "csv"}}, 1),
            job(running={**CONFIG, "output": FILES}),
            InvalidConfig,
            "output.format",
            "forbidden_change",
        ),
        (replace(write(Action.CREATE, "base", CONFIG), job="No Name"), None, InvalidConfig, "job", "job_name"),
        (
            replace(write(Action.CREATE, "base", CONFIG), precondition=Precondition(must_be_new=True)),
            job(),
            Conflict,
            "If-None-Match",
            "if_none_match",
        ),
        (
            replace(write(Action.CREATE, "base", CONFIG), precondition=Precondition(must_exist=True)),
            CLAIMED,
            NotFound,
            "job",
            "known",
        ),
    ],
)
def test_what_is_refused(
    asked: Write, present: StoredJob | None, error: type[UserError], field: str | None, rule: str
) -> None:
    with pytest.raises(error) as refused:
        decide(asked, present, LAYERS, NOW)
    assert (type(refused.value), refused.value.field, refused.value.rule) == (error, field, rule)


def _with_key_groups(count: int) -> dict[str, Any]:
    return {**CONFIG, "inputs": {"flights": {**CONFIG["inputs"]["flights"], "key_groups": count}}}


@pytest.mark.parametrize(
    ("running", "expected", "asked", "refused"),
    [
        (16, 16, 8, True),
        (8, 16, 8, False),
        (16, 8, 16, False),
        (16, 8, 4, True),
        (16, 8, 8, False),
        (None, 16, 8, False),
    ],
)
def test_a_job_that_runs_may_always_go_back_to_what_it_runs(
    running: int | None, expected: int, asked: int, *, refused: bool
) -> None:
    """What was asked for and never came to run is no evidence: the checkpoints are of what runs."""
    base = stored("base", _with_key_groups(expected))
    present = replace(job(running=None if running is None else _with_key_groups(running)), layers={"base": base})
    change = write(Action.CREATE, "base", {**_with_key_groups(asked), "priority": 3})
    if refused:
        with pytest.raises(InvalidConfig, match=r"key_groups cannot change .* `penstock jobs apply NEW FILE --wait`"):
            decide(change, present, LAYERS, NOW)
    else:
        assert decide(change, present, LAYERS, NOW) is not None


REFUSED = CONFIG | {"query": {"sql": "SELECT reflect('a', 'b') FROM flights"}}


def _of_an_older_release(desired_state: str = "running", running: Any = None) -> StoredJob:
    """Its query was taken, and breaks a rule of this release."""
    return replace(job(running=running), layers={"base": stored("base", REFUSED | {"desired_state": desired_state})})


@pytest.mark.parametrize(
    "asked",
    [
        write(Action.PATCH, config={"desired_state": "stopped"}, if_match=0),
        write(Action.PATCH, config={"priority": 3}, if_match=0),
        write(Action.PUT, "canary", {"package": {"name": "rules", "version": "1"}}, if_match=0),
        write(Action.CREATE, "base", REFUSED | {"owner": "bob"}),
    ],
)
def test_a_job_that_breaks_a_newer_rule_can_be_stopped_and_taken_back(asked: Write) -> None:
    assert decide(asked, _of_an_older_release(), LAYERS, NOW) is not None


def test_a_job_goes_back_to_what_it_runs_whatever_the_rules() -> None:
    present = job(running=REFUSED)
    assert decide(write(Action.CREATE, "base", REFUSED), present, LAYERS, NOW) is not None
    with pytest.raises(InvalidConfig, match="reflect"):
        decide(write(Action.CREATE, "base", REFUSED), job(running=CONFIG), LAYERS, NOW)


@pytest.mark.parametrize(
    ("asked", "desired_state", "rule"),
    [
        (write(Action.PATCH, config={"desired_state": "running"}, if_match=0), "stopped", "foreign_code"),
        (write(Action.PATCH, config={"task_count": 9}, if_match=0), "running", "key_groups"),
        (
            write(Action.PATCH, config={"query": {"sql": "SELECT reflect('c', 'd') FROM flights"}}, if_match=0),
            "running",
            "foreign_code",
        ),
    ],
    ids=["a start", "another rule", "another text of the same kind"],
)
def test_a_newer_rule_refuses_what_starts_or_changes_the_job(asked: Write, desired_state: str, rule: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        decide(asked, _of_an_older_release(desired_state), LAYERS, NOW)
    assert refused.value.rule == rule


def test_an_unknown_layer_is_told_with_those_that_it_may_mean() -> None:
    with pytest.raises(NotFound, match=r"no layer oncal; do you mean oncall\? There are: base, canary, oncall, scaler"):
        decide(write(Action.PUT, "oncal", {}, if_match=0), job(), LAYERS, NOW)


def test_a_conflict_carries_the_current_version() -> None:
    with pytest.raises(VersionConflict) as refused:
        decide(write(Action.PUT, config={}, if_match=3), job(ONCALL), LAYERS, NOW)
    assert refused.value.current_version == 4
    assert refused.value.detail == (
        "the layer oncall of etl is at version 4, not 3: ann has written it at 2026-01-01 00:00:00 UTC. "
        "Read it again, decide again, and send its new version"
    )
    with pytest.raises(VersionConflict, match="is at version 4, not 9, which nobody has written"):
        decide(write(Action.PUT, config={}, if_match=9), job(ONCALL), LAYERS, NOW)


IN_AN_HOUR, IN_TWO_HOURS, IN_A_MINUTE = (NOW + timedelta(seconds=seconds) for seconds in (3600, 7200, 60))


@pytest.mark.parametrize(
    ("asked", "present", "expires_at"),
    [
        (write(Action.PUT, config={}, if_match=0), job(), IN_AN_HOUR),
        (write(Action.PUT, config={}, if_match=0, expiry=Expiry(60)), job(), IN_A_MINUTE),
        (write(Action.PUT, config={}, if_match=0, expiry=Expiry(None)), job(), None),
        (write(Action.PUT, "scaler", {}, 0), job(), None),
        (write(Action.PUT, config={}, if_match=4), job(ONCALL), IN_AN_HOUR),
        (write(Action.PATCH, config={}, if_match=4), job(ONCALL), IN_TWO_HOURS),
        (write(Action.PATCH, config={}, if_match=4, expiry=Expiry(None, whole_layer=True)), job(ONCALL), None),
        (write(Action.PATCH, config={}, if_match=4), job(replace(ONCALL, expires_at=NOW)), IN_AN_HOUR),
        (write(Action.PATCH, config={}, if_match=4), job(replace(ONCALL, config=None)), IN_AN_HOUR),
        (write(Action.DROP, if_match=4), job(ONCALL), None),
    ],
)
def test_when_a_layer_ends(asked: Write, present: StoredJob, expires_at: datetime | None) -> None:
    change = decide(asked, present, LAYERS, NOW)
    assert change is not None
    assert change.expires_at == expires_at


STAYS = replace(ONCALL, expires_at=None)
NEVER, SOON, LATER = None, 300, 7200


@pytest.mark.parametrize(
    ("seconds", "present", "told"),
    [
        (SOON, STAYS, "which never expires"),
        (NEVER, ONCALL, "would stay for ever. Give no expiry"),
        (SOON, ONCALL, "would end with this write. Give no expiry"),
        (LATER, ONCALL, None),
        (NEVER, STAYS, None),
        (NEVER, replace(ONCALL, expires_at=NOW), None),
    ],
)
def test_an_expiry_of_some_fields_does_no_harm_to_others(
    seconds: int | None, present: StoredLayer, told: str | None
) -> None:
    asked = write(Action.PATCH, config={"task_count": 3}, if_match=4, expiry=Expiry(seconds))
    if told is None:
        assert decide(asked, job(present), LAYERS, NOW) is not None
        return
    with pytest.raises(Conflict, match=told) as refused:
        decide(asked, job(present), LAYERS, NOW)
    assert refused.value.rule == "whole_layer"
    assert decide(replace(asked, expiry=Expiry(seconds, whole_layer=True)), job(present), LAYERS, NOW) is not None


@pytest.mark.parametrize(
    ("patch", "present", "named"),
    [
        ({"task_count": 3}, STAYS, "priority, labels.a, which"),
        ({"priority": 2}, STAYS, "sets labels.a, which"),
        ({"priority": 2, "labels": {"b": "1"}}, STAYS, "sets labels.a, which"),
        ({"priority": None, "labels": {"a": "2"}}, STAYS, None),
        ({"priority": 2, "labels": None}, STAYS, None),
        ({"task_count": 3}, replace(STAYS, config=None), None),
    ],
)
def test_an_expiry_does_not_end_what_stays_unless_the_whole_layer_is_meant(
    patch: dict[str, Any], present: StoredLayer, named: str | None
) -> None:
    asked = write(Action.PATCH, config=patch, if_match=4, expiry=Expiry(300))
    if named is not None:
        with pytest.raises(Conflict, match=named) as refused:
            decide(asked, job(present), LAYERS, NOW)
        assert (refused.value.field, refused.value.rule) == ("expires_in_seconds", "whole_layer")
    for given in (Expiry(300, whole_layer=True), Expiry(None), None, *([] if named else [Expiry(300)])):
        assert decide(replace(asked, expiry=given), job(present), LAYERS, NOW) is not None


def test_a_patch_meets_an_expired_layer_as_empty_also_before_it_is_dropped() -> None:
    """Its old fields do not live on with the expiry of the patch, or for ever."""
    late = stored("oncall", {"task_count": 64, "trigger_interval_seconds": 1}, 4, NOW)
    for expiry in (Expiry(None), Expiry(60), None):
        asked = write(Action.PATCH, config={"trigger_interval_seconds": 2}, if_match=4, expiry=expiry)
        change = decide(asked, job(late), LAYERS, NOW)
        assert change is not None
        assert (change.new, change.expires_at == NOW) == ({"trigger_interval_seconds": 2}, False)
    stays = write(Action.PATCH, config={"task_count": 2}, if_match=4, stays=True)
    change = decide(stays, job(late), LAYERS, NOW)
    assert change is not None
    assert (change.new, change.expires_at) == ({"task_count": 2}, None)


@pytest.mark.parametrize(
    ("expires_at", "config", "dropped"),
    [
        (NOW, {"priority": 1}, True),
        (NOW + timedelta(seconds=1), {"priority": 1}, False),
        (None, {"priority": 1}, False),
        (NOW, None, False),
    ],
)
def test_only_what_is_due_expires(expires_at: datetime | None, config: dict[str, Any] | None, dropped: bool) -> None:
    layer = stored("oncall", config, 4, expires_at)
    assert (decide(write(Action.EXPIRE), job(layer), LAYERS, NOW) is not None) == dropped


def test_a_change_carries_the_configuration_that_was_checked() -> None:
    change = decide(write(Action.PUT, config={"priority": 2}, if_match=0), job(), LAYERS, NOW)
    assert change is not None
    assert change.config is not None
    assert change.config.priority == 2
    assert change.config.model_dump(mode="json") == change.merged
    stopped = decide(write(Action.DELETE), job(), LAYERS, NOW)
    assert stopped is not None
    assert (stopped.config, stopped.merged) == (None, None)


def test_the_job_as_a_whole() -> None:
    restart = decide(write(Action.RESTART), job(), LAYERS, NOW)
    delete = decide(write(Action.DELETE), job(), LAYERS, NOW)
    assert restart is not None
    assert delete is not None
    assert (restart.restarts, restart.layer, restart.deleting) == (1, None, False)
    assert (delete.restarts, delete.layer, delete.deleting) == (0, None, True)
    assert decide(write(Action.DELETE), job(deleting=True), LAYERS, NOW) is None


def test_a_job_that_never_ran_may_change_anything() -> None:
    assert decide(write(Action.PUT, config={"output_mode": "update"}, if_match=0), job(), LAYERS, NOW) is not None


def test_waves_hold_one_write_a_job_in_order() -> None:
    writes = [replace(write(Action.RESTART), job=name) for name in "abacba"]
    assert batches(writes) == [[0, 1, 3], [2, 4], [5]]
    assert batches([]) == []
