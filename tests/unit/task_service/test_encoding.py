"""Snapshots as bytes."""

from __future__ import annotations

import gzip

import pytest

from penstock.tasks.spec import expand
from penstock.wire.cluster import Snapshot
from services.task_service.encoding import Encoder
from services.task_service.store.rows import Changes
from services.task_service.templates import Templates, everything
from tests.unit.task_service.test_templates import BAD, changes, mixed, row


def read(*jobs: str) -> Templates:
    rows = tuple(row(job, number) for number, job in enumerate(jobs, 1))
    return everything(None, Changes(len(jobs), 16, rows, {"gone": 2}))


def test_the_full_snapshot_reads_back():
    encoded = Encoder().encode(read("a", "b", "c"), None)
    snapshot = Snapshot.model_validate_json(encoded.body)
    assert (snapshot.full, snapshot.commit_number, snapshot.shard_count, snapshot.removed) == (True, 3, 16, ())
    assert [template.job for template in snapshot.templates] == ["a", "b", "c"]
    assert gzip.decompress(encoded.compressed) == encoded.body


def test_what_tasks_ran_before_travels_only_while_there_is_any():
    """A Task Manager of the release before knows no such field, and would refuse the whole snapshot."""
    for stored, travels in ((row("a", 1), False), (mixed(1), True)):
        body = Encoder().encode(everything(None, changes(1, stored)), None).body
        assert (b'"before"' in body) is travels
        (template,) = Snapshot.model_validate_json(body).templates
        assert (template.before is not None) is travels


def test_of_each_job_only_the_newest_template_is_kept_in_the_forms_that_are_asked_for():
    """An order with a level has two: for those who know levels, and for those who do not."""
    encoder = Encoder()
    ordered = row("a", 1)._replace(quiescing=True, level_ms=5_000)
    for stored, forms in ((ordered, 2), (row("a", 2), 1), (ordered._replace(commit_number=3), 2)):
        templates = everything(None, changes(stored.commit_number, stored))
        for levels in (True, False):
            encoder.encode(templates, None, levels=levels)
        assert len(encoder._templates) == forms


@pytest.mark.parametrize("levels", [True, False])
def test_an_order_to_take_no_more_rows_travels_only_while_it_stands_and_its_level_to_those_who_know_it(levels: bool):
    """For the same reason. The level 0 is one."""
    for order in ({}, {"quiescing": True}, {"quiescing": True, "level_ms": 0}, {"quiescing": True, "level_ms": 5_000}):
        templates = everything(None, changes(1, row("a", 1)._replace(**order)))
        encoder = Encoder()
        bodies = {known: encoder.encode(templates, None, levels=known).body for known in (True, False)}
        assert {name: f'"{name}"'.encode() in bodies[levels] for name in ("quiescing", "level_ms")} == {
            "quiescing": "quiescing" in order,
            "level_ms": levels and "level_ms" in order,
        }
        (spec, *_) = expand(Snapshot.model_validate_json(bodies[levels]).templates[0])
        assert (spec.quiescing, spec.level_ms) == (
            order.get("quiescing", False),
            order.get("level_ms") if levels else None,
        )


def test_a_delta_has_what_came_after():
    snapshot = Snapshot.model_validate_json(Encoder().encode(read("a", "b", "c"), 1).body)
    assert not snapshot.full
    assert [template.job for template in snapshot.templates] == ["b", "c"]
    assert snapshot.removed == ("gone",)


def test_the_same_answer_is_made_once_and_tags_tell_contents_apart():
    encoder, first, second = Encoder(), read("a"), read("a", "b")
    once = encoder.encode(first, None)
    assert encoder.encode(first, None) is once
    assert encoder.encode(read("a"), None).etag == once.etag
    assert encoder.encode(second, None).etag != once.etag


def test_a_full_snapshot_names_the_jobs_that_cannot_be_read():
    known = everything(None, changes(2, row("good", 1), row("bad", 2, BAD)))
    snapshot = Snapshot.model_validate_json(Encoder().encode(known, None).body)
    assert [template.job for template in snapshot.templates] == ["good"]
    assert snapshot.unreadable == ("bad",)
