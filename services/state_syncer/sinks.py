"""The step `initialize_sink`: a container makes a job's output before the commit that has tasks write to it, and
before the stop when that commit ends a plan. Pure.

Nothing is recorded, as nothing is stopped or taken for it and it may be done twice: a new leader asks again. Who is
asked follows from the job's name, the containers and the failures so far, so every round and every leader asks the
same one until it is lost, or fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.config.model import JobConfig
from penstock.tasks.selectors import meets, selector_of
from penstock.tasks.sinks import SinkRequest, needs_sink
from services.state_syncer.asks import Ask, AskKey
from services.state_syncer.budget import Candidate, Queue
from services.state_syncer.plan import Begin, Commit, Fail, JobView, Wait, field_names
from services.state_syncer.progress import Done, Failed, Lost, Outcome, Place
from services.state_syncer.ring import Ring

INITIALIZE_SINK = "initialize_sink"


def awaits_sink(view: JobView, commit: Commit) -> bool:
    """Whether the output that a commit is for may not be there yet. A job that never started begins with its tasks;
    one that did has made the output that it runs with."""
    if commit.stopping or not needs_sink(commit.config):
        return False
    if view.running is None or not view.running.started:
        return commit.asks_for_tasks
    return bool(commit.config["output"] != view.running.config["output"])


def end_of(view: JobView, begun: Begin) -> Commit:
    """The commit that a plan is to end in, as far as its output goes: that is made before the job is stopped."""
    generation = 0 if view.running is None else view.running.generation
    return Commit(begun.config, view.revision, generation, view.restarts, difference=begun.difference)


class Sinks:
    """The outputs that are made while a round looks: at most `count` at once, `containers` by name being live."""

    def __init__(self, containers: Mapping[str, Place], outcome: Callable[[AskKey], Outcome], count: int) -> None:
        self._containers = containers
        self._outcome = outcome
        self._count = count
        self._queue: Queue[Commit] = Queue(count)
        self._rings: dict[str | None, Ring] = {}

    def look(self, view: JobView, commit: Commit) -> Commit | Fail | None:
        """The commit once its output is there, why that failed, or None while it has to be made."""
        key = self._key(view, commit)
        match self._outcome(key):
            case Done():
                return commit
            case Failed(why) | Lost(why):
                told = f"step {INITIALIZE_SINK} on {key.container}: {why}"
                return Fail(told, commit.difference.kind, field_names(commit.difference))
        return None

    def offer(self, view: JobView, commit: Commit) -> tuple[JobView, Wait] | None:
        """Takes in what has to be made; the job that has no room now."""
        late = self._queue.offer(Candidate(view, commit))
        return None if late is None else (late.view, self._wait(late, f"no more than {self._count} at once"))

    def picked(self) -> list[tuple[Candidate[Commit], Wait]]:
        """What there is room for, and what to say of each meanwhile."""
        return [(candidate, self._wait(candidate, self._waits_for(candidate))) for candidate in self._queue.picked()]

    def asks(self, making: Iterable[Candidate[Commit]]) -> tuple[list[Ask], dict[AskKey, str]]:
        """What to ask, of those that can be; and why a request cannot be made."""
        asks, rejected = [], {}
        for view, commit in making:
            key = self._key(view, commit)
            if key.container is None:
                continue
            try:
                config = JobConfig.model_validate(dict(commit.config))
                request = SinkRequest(job=view.job, revision=commit.revision, config=config)
                asks.append(Ask(key, self._containers[key.container].url, request))
            except ValueError as error:
                rejected[key] = f"the request cannot be made: {error}"
        return asks, rejected

    def _key(self, view: JobView, commit: Commit) -> AskKey:
        failures = view.failures_since(view.revision)
        container = self._ring(selector_of(commit.config)).choose(view.job, failures)
        return AskKey(view.job, INITIALIZE_SINK, commit.revision, container, failures, 0)

    def _ring(self, selector: str | None) -> Ring:
        """Of the containers that meet the selector, or of all when none does; made once, however many jobs wait."""
        if selector not in self._rings:
            near = [name for name, place in self._containers.items() if meets(place.offers, selector)]
            self._rings[selector] = Ring(near or self._containers)
        return self._rings[selector]

    def _waits_for(self, candidate: Candidate[Commit]) -> str:
        container = self._key(*candidate).container
        return "no container can be asked" if container is None else f"{container} makes the output"

    def _wait(self, candidate: Candidate[Commit], why: str) -> Wait:
        view, commit = candidate
        return Wait(f"{INITIALIZE_SINK}: {why}", commit.difference, view.failures_since(view.revision))
