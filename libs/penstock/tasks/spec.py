"""Task templates and task specs, and the pure expansion from one to the other.

What travels between the Task Service and Task Managers is one `TaskTemplate` a job; both ends expand it with
`expand`, so a hundred thousand tasks cost a few thousand records.
"""

from __future__ import annotations

from pydantic import Field, ValidatorFunctionWrapHandler, field_validator

from penstock.config.declare import Name
from penstock.config.keygroups import KeyGroupRange, ranges
from penstock.config.keygroups import key_group_count as key_group_count
from penstock.config.model import Carried, DesiredState, JobConfig, Model


class Before(Carried):
    """What the tasks from index `upgraded` on still run while a new package goes out in waves."""

    upgraded: int
    revision: int
    restarts: int
    config: JobConfig


class Coming(Carried):
    """What a rescale that has stopped the tasks, or is about to, will end in: another generation of the job, unless the
    rescale is taken back. Its tasks must not run; what they need may be made ahead."""

    revision: int
    generation: int
    restarts: int
    config: JobConfig


class TaskTemplate(Carried):
    """A row of the running table, as Task Managers see it.

    `commit_number` orders the rows: it is taken anew at every commit of the State Syncer, so a delta is "all
    templates above number n". `restarts` counts restarts that were asked for. `before` is there in a rollout only.
    `quiescing`: before a rescale the tasks finish the batch in hand and take no more rows. `level_ms`, milliseconds
    since 1970, only with `quiescing`. None: nothing more. 0: the tasks also say their watermark. Above 0, the goal:
    those whose watermark is below it first read up to it, or to the end of their inputs. `coming`: during a rescale
    only, once it is known; a broken one counts as none.
    """

    job: Name
    commit_number: int
    revision: int
    generation: int
    restarts: int
    config: JobConfig
    before: Before | None = None
    quiescing: bool = False
    level_ms: int | None = None
    coming: Coming | None = Field(None, exclude_if=lambda coming: coming is None)

    @field_validator("coming", mode="wrap")
    @classmethod
    def _leave_out_what_is_broken(cls, value: object, read: ValidatorFunctionWrapHandler) -> Coming | None:
        """It only saves time. Tasks that run, of this job and of those in the same message, need the rest."""
        try:
            return readable(read(value))
        except ValueError:
            return None

    def of(self, index: int) -> TaskTemplate | Before:
        return self if self.before is None or index < self.before.upgraded else self.before


class TaskSpec(Model):
    """All that is needed to run one task."""

    job: Name
    index: int
    revision: int
    generation: int
    restarts: int
    key_groups: KeyGroupRange
    config: JobConfig
    quiescing: bool = False
    level_ms: int | None = None

    @property
    def task_id(self) -> str:
        """`job/index`."""
        return task_id(self.job, self.index)


def task_id(job: str, index: int) -> str:
    """The deterministic name of a task: `job/index`."""
    return f"{job}/{index}"


def key_group_ranges(config: JobConfig) -> tuple[KeyGroupRange, ...]:
    """The key groups of each task of a job, in order of index. Raises ValueError as `ranges` does."""
    return ranges(key_group_count(config), config.task_count, config.key_group_bounds)


def expand(template: TaskTemplate) -> tuple[TaskSpec, ...]:
    """The specs of a job's tasks, in order of index; none when the job should be stopped."""
    config = template.config
    if config.desired_state is DesiredState.STOPPED:
        return ()
    return tuple(
        TaskSpec(
            job=template.job,
            index=index,
            revision=template.of(index).revision,
            generation=template.generation,
            restarts=template.of(index).restarts,
            key_groups=key_groups,
            config=template.of(index).config,
            quiescing=template.quiescing,
            level_ms=template.level_ms,
        )
        for index, key_groups in enumerate(key_group_ranges(config))
    )


def readable(coming: Coming | None) -> Coming | None:
    """The same. Raises ValueError when it cannot be said what its tasks are."""
    if coming is not None:
        key_group_ranges(coming.config)
    return coming


def coming_specs(template: TaskTemplate) -> tuple[TaskSpec, ...]:
    """The specs of the tasks that a rescale will start, in order of index; they must not run yet."""
    coming = template.coming
    return () if coming is None else expand(TaskTemplate(job=template.job, commit_number=0, **dict(coming)))
