"""What a container is asked for a plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.config.model import JobConfig
from penstock.tasks.redistribution import CopyRequest, RedistributionRequest, SavepointName, SealRequest
from services.state_syncer.decide.progress import Plan, Restore, Step
from services.state_syncer.decide.view import Running
from services.state_syncer.host_tasks.plan_tasks import key_of, request_of
from tests.support.store.jobs import make_config

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING = Running(make_config(), revision=5, generation=3, restarts=0, stopping=True, started=True, commit_number=9)
CONFIG = make_config(task_count=4, trigger_interval_seconds=9.0, priority=2)
PLAN = Plan(
    step=Step.REDISTRIBUTE,
    revision=6,
    restarts=0,
    config=CONFIG,
    fields=("task_count",),
    generation=7,
    container="a",
    begun_at=NOW,
    step_at=NOW,
)


def test_only_the_rescaled_fields_differ_between_source_and_target() -> None:
    request = request_of("j", PLAN, RUNNING)
    assert isinstance(request, RedistributionRequest)
    assert (request.source.generation, request.target.generation) == (3, 7)
    assert request.source.config.model_dump(mode="json") == make_config()
    assert request.target.config.model_dump(mode="json") == make_config(task_count=4)
    assert [tuple(each) for each in request.source.ranges] == [(0, 4), (4, 8)]
    assert [tuple(each) for each in request.target.ranges] == [(0, 2), (2, 4), (4, 6), (6, 8)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"container_labels": {"disk": "ssd"}}),
        ({"container_labels": {"disk": "ssd", "gpu": "yes"}}, {"container_labels": {"disk": "hdd"}}),
        ({"container_labels": {"disk": "ssd"}}, {"region": "eu"}),
        ({"region": "eu"}, {}),
    ],
)
def test_what_a_job_asks_for_may_come_and_go(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Also in place of a configuration from before there were labels."""
    ran = make_config(**before)
    if not before:
        del ran["container_labels"]
    plan = PLAN.model_copy(update={"config": make_config(task_count=4, **after)})
    request = request_of("j", plan, replace(RUNNING, config=ran))
    assert isinstance(request, RedistributionRequest)
    assert request.target.config.model_dump(mode="json") == make_config(task_count=4, **after)


_TOPIC = {"output": {"type": "kafka", "topic": "side"}}
_TABLE = {"where": "delay > 1", "output": {"type": "delta", "path": "file:/side"}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"a": _TOPIC}),
        ({"a": _TOPIC}, {}),
        ({"a": _TOPIC, "b": _TABLE}, {"a": _TABLE}),
        ({"a": _TABLE}, {"a": _TOPIC}),
    ],
)
def test_a_side_output_comes_and_goes_as_a_whole(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Also its fields that a restart alone would change: a side output of some of them would be none."""
    plan = PLAN.model_copy(update={"config": make_config(side_outputs=after)})
    request = request_of("j", plan, replace(RUNNING, config=make_config(side_outputs=before)))
    assert isinstance(request, RedistributionRequest)
    assert request.source.config == JobConfig.model_validate(make_config(side_outputs=before))
    assert request.target.config == JobConfig.model_validate(make_config(side_outputs=after))


def test_a_copy_is_of_the_layouts_that_the_redistribution_will_have() -> None:
    copying = PLAN.model_copy(update={"step": Step.COPY})
    copied, request = request_of("j", copying, RUNNING, 5), request_of("j", PLAN, RUNNING, 5)
    assert isinstance(copied, CopyRequest)
    assert isinstance(request, RedistributionRequest)
    assert (copied.source, copied.target, copied.state_bytes) == (request.source, request.target, 5)


@pytest.mark.parametrize("is_restore", [True, False])
def test_a_host_knows_what_will_be_sealed(is_restore: bool) -> None:
    """It asks whether that can be done, before the seal is recorded and there is no way back. Without a restore it is
    the source."""
    restore = Restore(number=1, savepoint=SavepointName(job="k", name="s"), generation=2, config=make_config())
    plan = PLAN.model_copy(update={"restore": restore if is_restore else None})
    request = request_of("j", plan, RUNNING)
    assert isinstance(request, RedistributionRequest)
    sealed = request.seals or request.source
    assert (sealed.generation, sealed.savepoint, request.seals is None) == (3, None, not is_restore)
    assert ("seals" in request.model_dump(mode="json")) is is_restore, "older hosts know none"


def test_the_generation_that_ran_is_sealed() -> None:
    request = request_of("j", PLAN.at(Step.SEAL, NOW, "a", 7), RUNNING)
    assert isinstance(request, SealRequest)
    assert (request.job, request.layout.generation, len(request.layout.ranges)) == ("j", 3, 2)
    assert request.target is None


def test_the_seal_knows_the_outputs_that_come_instead() -> None:
    plan = PLAN.model_copy(update={"config": make_config(side_outputs={"a": _TOPIC})})
    request = request_of("j", plan.at(Step.SEAL, NOW, "a", 7), RUNNING)
    assert isinstance(request, SealRequest)
    assert request.target == JobConfig.model_validate(make_config(side_outputs={"a": _TOPIC}))


def test_a_configuration_that_cannot_be_read_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="query"):
        request_of("j", PLAN, replace(RUNNING, config={"query": 1}))


def test_each_attempt_has_a_key_of_its_own() -> None:
    plans = [PLAN, PLAN.at(Step.SEAL, NOW, "a", 7), PLAN.model_copy(update={"losses": 1})]
    keys = {key_of("j", plan, failures) for plan in plans for failures in (0, 1)}
    assert len(keys) == 6
