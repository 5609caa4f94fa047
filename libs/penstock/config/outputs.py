"""The outputs of a job one by one: what is asked of a job with one output is asked of each of several, and said of the
field that it has. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from penstock.config.model import MAIN, DeltaOutput, FunctionOutput, JobConfig, KafkaOutput, PostgresOutput
from penstock.config.problems import Problem

_NAMES = sorted(
    {name for model in (KafkaOutput, DeltaOutput, PostgresOutput, FunctionOutput) for name in model.model_fields}
)
# Where a text names a field of the output: not in a path, nor in the name of a topic or table.
_FIELDS = re.compile(rf"(?:^|(?<=[\s(]))output(?=\.(?:{'|'.join(_NAMES)})\b)|^output(?=: )")


def each_output(config: JobConfig) -> Iterator[tuple[str, JobConfig]]:
    """The job once for each of its outputs, as if it had no other: with the output's field, `output` first."""
    if not config.side_outputs:
        yield MAIN, config
        return
    for field, output in config.outputs.items():
        yield field, config.model_copy(update={MAIN: output, "side_outputs": {}})


def about_output(text: str, field: str) -> str:
    """A text about a job with one output, as one about the output that has this field."""
    return text if field == MAIN else _FIELDS.sub(field, text)


def of_each_output(rule: Callable[[JobConfig], Iterator[Problem]]) -> Callable[[JobConfig], Iterator[Problem]]:
    """A rule for jobs with one output, as a rule for all outputs of a job."""

    def problems(config: JobConfig) -> Iterator[Problem]:
        yield from dict.fromkeys(
            Problem(about_output(problem.field, field), problem.rule, about_output(problem.detail, field))
            for field, alone in each_output(config)
            for problem in rule(alone)
        )

    return problems
