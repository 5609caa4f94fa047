"""What the rules say of a configuration of which parts are not known."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.config import partial
from penstock.config.model import JobConfig
from penstock.config.partial import UnknownPart, partial_of
from penstock.config.problems import Problem
from tests.support.config.jobs import job

BROKEN = {**job({}), "output": {"type": "nowhere"}, "max_task_count": 1, "task_count": 2}


def test_a_part_that_is_not_known_cannot_be_read_and_the_others_can() -> None:
    known = partial_of(BROKEN, ["output.type"])
    for config in (known.config, known.config.model_copy(update={"priority": 2})):
        with pytest.raises(UnknownPart, match="output"):
            _ = config.output
        with pytest.raises(UnknownPart, match="output"):
            _ = config.outputs
        assert config.inputs
    with pytest.raises(AttributeError, match="outptu"):
        _ = known.config.outptu  # type: ignore[attr-defined]
    assert "max_task_count" in {problem.rule for problem in known.broken_rules()}


def test_a_fault_of_a_rule_is_not_taken_for_a_part_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(config: JobConfig) -> Iterator[Problem]:
        yield Problem("inputs", "rule", config.inputs.absent)  # type: ignore[attr-defined]

    monkeypatch.setattr(partial, "RULES", (faulty,))
    with pytest.raises(AttributeError, match="absent"):
        list(partial_of(BROKEN, ["output.type"]).broken_rules())
