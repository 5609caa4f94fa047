"""Templates to specs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from penstock.config.validate import check_merged
from penstock.tasks.spec import Before, TaskSpec, TaskTemplate, expand, key_group_count, task_id
from tests.support.config.jobs import job


def template(**changes: object) -> TaskTemplate:
    """The template of a job with these changes."""
    return TaskTemplate(
        job="flights-clean",
        commit_number=7,
        revision=5,
        generation=2,
        restarts=1,
        config=check_merged(job(changes)),
    )


def test_a_job_becomes_its_tasks_in_order() -> None:
    specs = expand(template(task_count=3))
    assert [(spec.task_id, spec.key_groups) for spec in specs] == [
        ("flights-clean/0", (0, 2)),
        ("flights-clean/1", (2, 5)),
        ("flights-clean/2", (5, 8)),
    ]
    assert {(spec.job, spec.revision, spec.generation, spec.restarts) for spec in specs} == {("flights-clean", 5, 2, 1)}
    assert all(spec.config.task_count == 3 for spec in specs)


def test_only_upgraded_tasks_run_what_is_new() -> None:
    new, old = template(task_count=3, priority=2), template(task_count=3)
    before = Before(upgraded=1, revision=4, restarts=0, config=old.config)
    specs = expand(new.model_copy(update={"before": before}))
    assert [(spec.revision, spec.restarts, spec.config.priority) for spec in specs] == [(5, 1, 2), (4, 0, 0), (4, 0, 0)]
    others = expand(old.model_copy(update={"revision": 4, "restarts": 0}))
    assert specs[1:] == others[1:], "nothing of the others changes, so nobody restarts them"


def test_a_stopped_job_has_no_tasks_whatever_it_ran_before() -> None:
    stopped = template(desired_state="stopped", task_count=3)
    before = Before(upgraded=1, revision=4, restarts=0, config=template(task_count=3).config)
    assert expand(stopped.model_copy(update={"before": before})) == ()


def test_a_stopped_job_has_no_tasks() -> None:
    assert expand(template(desired_state="stopped", task_count=3)) == ()


def test_both_ends_of_the_wire_expand_alike() -> None:
    sent = template(task_count=4)
    received = TaskTemplate.model_validate_json(sent.model_dump_json())
    assert expand(received) == expand(sent)


def test_a_spec_survives_the_channel() -> None:
    (spec,) = expand(template())
    received = TaskSpec.model_validate_json(spec.model_dump_json())
    assert received == spec
    assert list(received.key_groups.members()) == list(range(8))


def test_specs_cannot_be_changed() -> None:
    (spec,) = expand(template())
    with pytest.raises(ValidationError, match="frozen"):
        spec.index = 1  # type: ignore[misc]


def test_names_and_key_groups() -> None:
    assert task_id("a.b", 12) == "a.b/12"
    assert key_group_count(template().config) == 8
