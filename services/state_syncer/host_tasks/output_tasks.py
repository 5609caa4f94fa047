"""The host tasks `initialize_sink`: a container makes a job's output before the commit after which tasks write to it.
When that commit ends a rescale, the output is made before the job is stopped. Pure.

These tasks are not recorded: they stop nothing and may be done twice, so a new leader simply asks again. The job's
name, the containers and the failures so far determine the container. So every round and every leader asks the same one
until it is lost or fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from penstock.config.model import JobConfig
from penstock.tasks.host_task import INITIALIZE_SINK, POLICIES
from penstock.tasks.selectors import selector_of
from penstock.tasks.sinks import SinkRequest
from services.state_syncer.decide.budget import Candidate, Queue
from services.state_syncer.decide.decisions import Commit, Fail, Wait
from services.state_syncer.decide.view import JobView
from services.state_syncer.host_tasks.next_attempt import (
    Candidates,
    GiveUp,
    HostTaskStep,
    LiveContainer,
    Retry,
    after_attempt,
)
from services.state_syncer.host_tasks.outcomes import Attempt, AttemptKey, Done, Failed, Outcome
from services.state_syncer.host_tasks.ring import Ring

_HOST_FIRST = "a Spark host may have to start there first"
_POLICY = POLICIES[INITIALIZE_SINK]


class OutputTasks:
    """The outputs that are made during a round: at most `count` at once, `containers` by name being live."""

    def __init__(
        self, containers: Mapping[str, LiveContainer], outcome: Callable[[AttemptKey], Outcome], count: int
    ) -> None:
        self._candidates = Candidates(containers)
        self._rings: dict[str | None, Ring] = {}
        self._outcome = outcome
        self._count = count
        self._queue: Queue[Commit] = Queue(count)
        self._made: list[Candidate[Commit]] = []

    def resolve(self, view: JobView, commit: Commit, *, is_start: bool) -> Commit | Fail | None:
        """The commit once its output exists; the failure; or None while the output must be made.

        `is_start`: the commit is the end of a plan that may have to wait for room. Who made its output is not forgotten
        meanwhile.
        """
        task = self._task(view, commit)
        match after_attempt(task, self._outcome(task.key), _POLICY, container_lives=True):
            case Done():
                self._made += [Candidate(view, commit)] if is_start else []
                return commit
            case GiveUp(why) | Retry(why):
                told = f"step {INITIALIZE_SINK} on {task.key.container}: {why}"
                return Fail(told, commit.difference.kind, commit.difference.names)
        return None

    def offer(self, view: JobView, commit: Commit) -> tuple[JobView, Wait] | None:
        """Adds a commit whose output must be made. Returns a job that has no room now."""
        late = self._queue.offer(Candidate(view, commit))
        return None if late is None else (late.view, _wait(late, f"no more than {self._count} at once"))

    def picked(self) -> Iterator[tuple[JobView, Wait]]:
        """The jobs for whose outputs there is room, each with its sync state meanwhile."""
        for candidate in self._queue.picked:
            container = self._task(*candidate).key.container
            why = "no container can be asked" if container is None else f"{container} makes the output; {_HOST_FIRST}"
            yield candidate.view, _wait(candidate, why)

    def attempts(self) -> Iterator[Attempt]:
        """What to ask for the outputs that are made."""
        for view, commit in (*self._made, *self._queue.picked):
            key = self._task(view, commit).key
            if key.container is None:
                continue
            url = self._candidates.places[key.container].url
            try:
                config = JobConfig.model_validate(dict(commit.config))
                yield Attempt(key, url, _request(view, commit.revision, config))
            except ValueError as error:
                yield Attempt(key, url, Failed(f"the request cannot be made: {error}"))

    def _task(self, view: JobView, commit: Commit) -> HostTaskStep:
        failures, selector = view.failures_since(view.revision), selector_of(commit.config)
        if selector not in self._rings:
            self._rings[selector] = Ring(self._candidates.near(selector))
        container = self._rings[selector].choose(view.job, failures)
        return HostTaskStep(AttemptKey(view.job, INITIALIZE_SINK, commit.revision, container, failures), failures)


def _request(view: JobView, revision: int, config: JobConfig) -> SinkRequest:
    return SinkRequest(job=view.job, revision=revision, config=config, first_generation=view.first_generation)


def _wait(candidate: Candidate[Commit], why: str) -> Wait:
    view, commit = candidate
    return Wait(f"{INITIALIZE_SINK}: {why}", commit.difference, view.failures_since(view.revision))
