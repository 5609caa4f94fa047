"""Which writes Spark is asked about."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.model import JobConfig
from services.job_service.analysed import may_matter, must_be_asked
from services.job_service.analyses import START_SECONDS, MustAsk, Question
from services.job_service.answers import Verified
from tests.support.config.jobs import job

CONFIG = JobConfig.model_validate(job())


@pytest.mark.parametrize(
    ("old", "new", "matters"),
    [
        ({}, {}, False),
        ({}, {"priority": 2}, False),
        ({"priority": 2, "task_count": 2}, {"task_count": 2}, False),
        ({"task_count": 2}, {}, True),
        ({"task_count": 2}, {"task_count": 3}, True),
        ({}, {"query": {"sql": "SELECT 1"}}, True),
        ({"inputs": {"a": {"topic": "t"}}}, {"inputs": {"a": {"topic": "u"}}}, True),
        ({"args": {"x": 1}}, {"args": {"x": True}}, True),
    ],
)
def test_a_change_of_a_layer_matters_unless_no_analysis_depends_on_it(old: Any, new: Any, matters: bool) -> None:
    """Types of `args` count, which Python holds equal."""
    assert may_matter(old, new) is matters


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ({"inputs": {"flights": {"malformed_alert_share": 0.5}}}, False),
        ({"inputs": {"flights": {"malformed_limit": 0.4}}}, True),
        ({"inputs": {"flights": {"starting_position": "latest"}}}, True),
        ({"inputs": {"flights": {"allow_late_producers": True}}}, True),
        ({"spark_settings": {"spark.sql.adaptive.enabled": "true"}}, False),
        ({"spark_settings": {"spark.sql.ansi.enabled": "false"}}, True),
    ],
)
def test_nobody_is_asked_about_what_changes_while_tasks_run(change: dict[str, Any], *, asked: bool) -> None:
    """Nor about settings that Spark reads only then."""
    assert must_be_asked(CONFIG, JobConfig.model_validate(job(change))) is asked


def test_a_question_stays_open_until_it_is_answered() -> None:
    """1. The first attempt of a write ends. 2. The second one has the answer. 3. Nobody is asked where the caller wants
    no answer, and that is told."""
    question = Question(verify=True)
    with pytest.raises(MustAsk):
        question.require_answer("etl", CONFIG)
    question.answer(CONFIG, Verified(True))
    question.require_answer("etl", CONFIG)
    unasked = Question(verify=False)
    unasked.require_answer("etl", CONFIG)
    assert unasked.verified == Verified(False, "verify=false was asked for")


def test_an_answer_is_of_one_configuration() -> None:
    """1. Answered. 2. Another layer changes the query meanwhile: asked again. 3. So often that the write goes on."""
    question = Question(verify=True)
    question.answer(CONFIG, Verified(True))
    other = CONFIG.model_copy(update={"query": CONFIG.query.model_copy(update={"sql": "SELECT 2"})})
    with pytest.raises(MustAsk):
        question.require_answer("etl", other)
    question.require_answer("etl", CONFIG.model_copy(update={"priority": 7}))
    assert question.verified == Verified(True)
    question.give_up()
    question.require_answer("etl", other)
    assert question.verified == Verified(False, "other writes changed the job while Spark was asked")


def test_all_questions_of_one_write_have_one_deadline() -> None:
    """1. The first starts the time. 2. The second has what is left of it. 3. Nothing is left."""
    question = Question(verify=True)
    assert question.seconds_left(100.0) == START_SECONDS
    assert question.seconds_left(104.0) == START_SECONDS - 4.0
    assert question.seconds_left(100.0 + 2 * START_SECONDS) == 0.0
