"""Encoded answers: made once, kept for the newest templates."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from services.task_service import answers as module
from services.task_service.answers import KEPT_ANSWERS, Answers
from services.task_service.encoding import Asked, Encoded, encode
from tests.unit.task_service.test_encoding import read


def test_an_answer_that_many_ask_for_at_once_is_made_once_and_others_are_not_held_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1. One caller encodes and is slow, three others wait for it. 2. Meanwhile another answer is made."""
    made: list[Asked] = []
    begun, may_end = threading.Event(), threading.Event()

    def slow(templates: Any, asked: Asked) -> Encoded:
        made.append(asked)
        if asked.after == 1:
            begun.set()
            assert may_end.wait(10)
        return encode(templates, asked)

    monkeypatch.setattr(module, "encode", slow)
    answers, templates = Answers(), read("a", "b")
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(answers.encode, templates, Asked(1)) for _ in range(4)]
        assert begun.wait(10)
        assert answers.ready(templates, Asked(1)) is None
        other = answers.encode(templates, Asked())
        may_end.set()
        first, *others = [each.result() for each in waiting]
    assert all(each is first for each in others)
    assert made == [Asked(1), Asked()]
    assert answers.ready(templates, Asked()) is other


def test_answers_about_older_templates_are_not_given_and_few_are_kept() -> None:
    answers, templates = Answers(), read("a")
    first = answers.encode(templates, Asked())
    later = read("a", "b")
    assert answers.ready(later, Asked()) is None
    assert answers.encode(later, Asked()) is not first
    for after in range(2 * KEPT_ANSWERS):
        answers.encode(later, Asked(after))
    assert len(answers._kept) == KEPT_ANSWERS


def test_an_answer_that_fails_fails_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Encoded:
        raise ValueError("no such job")

    monkeypatch.setattr(module, "encode", broken)
    answers, templates = Answers(), read("a")
    for _ in range(2):
        with pytest.raises(ValueError, match="no such job"):
            answers.encode(templates, Asked())
        assert answers.ready(templates, Asked()) is None
