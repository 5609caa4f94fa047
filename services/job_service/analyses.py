"""Spark's analysis of what is written: asked of a container, and what follows from the answer."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from time import monotonic

from sqlalchemy import Engine

from penstock.config.model import JobConfig
from penstock.config.problems import Problem
from penstock.control.errors import PenstockError
from penstock.control.logs import logger
from penstock.kafka.settings import KNOWN_CLUSTER
from penstock.store.engine import snapshot
from penstock.tasks.analysis import MADE_BY_WRITERS, OFFSET_KEPT, AnalysisReport, AnalysisRequest
from penstock.tasks.selectors import selector_of
from penstock.wire.analyses import AnalysisCall, AnalysisClient
from services.job_service.analysed import must_be_asked
from services.job_service.answers import Verified
from services.job_service.store.analyses import has_run, live_urls, topics_written

log = logger(__name__)

PLAN_SECONDS = 30.0
WRITE_SECONDS = 7.0
START_SECONDS = 8.0
"""For how long a write waits in all where no host is ready and one starts. Clients wait for 10 s for its answer."""
_MOST_ASKED = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """`report` None: nobody has answered; `why` then says it. `late`: for as long as was waited."""

    report: AnalysisReport | None
    why: str = ""
    late: bool = False

    @property
    def verified(self) -> bool:
        """Whether every check was made."""
        return self.report is not None and not self.report.unchecked

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found that refuses nothing."""
        return () if self.report is None else self.report.notes

    @property
    def unverified_why(self) -> str:
        """What could not be checked; empty where every check was made."""
        return self.why if self.report is None else "; ".join(self.report.unchecked)


class MustAsk(Exception):
    """Nothing was written: containers must be asked about a write first, outside of its transaction."""

    def __init__(self, job: str, config: JobConfig) -> None:
        super().__init__(job)
        self.job = job
        self.config = config


@dataclass(slots=True)
class Question:
    """What containers say of one write. `verify`: whether they are to be asked. `verified`: what came of it; None: they
    need not be asked, or have not been yet. `asked`: the configuration of which they spoke. `until`: when the write
    waits for no answer any more, by the monotonic clock, however often it is asked; None: before the first time."""

    verify: bool
    verified: Verified | None = None
    asked: JobConfig | None = None
    until: float | None = None

    def seconds_left(self, now: float) -> float:
        """For how long the write may wait from `now` on. The first call starts the time."""
        if self.until is None:
            self.until = now + START_SECONDS
        return max(0.0, self.until - now)

    def require_answer(self, job: str, after: JobConfig) -> None:
        """Raises MustAsk unless the answer is there and of this configuration, or nobody wants one.

        Another layer may have changed while a container was asked: what it said is then of a job that is not written.
        """
        if not self.verify:
            self.verified = self.verified or Verified(False, "verify=false was asked for")
        elif self.asked is None or must_be_asked(self.asked.model_dump(mode="json"), after):
            raise MustAsk(job, after)

    def answer(self, config: JobConfig, verified: Verified) -> None:
        """Takes what containers say of a configuration."""
        self.asked, self.verified = config, verified

    def give_up(self) -> None:
        """Asks no more: the job changed each time."""
        self.verify, self.verified = False, Verified(False, "other writes changed the job while Spark was asked")


class Analyses:
    """Asks live containers, one after the other until one has no problem or makes every check. Safe from any thread."""

    def __init__(self, engine: Engine, client: AnalysisClient) -> None:
        self._engine = engine
        self._client = client

    def ask_for_plan(self, job: str, config: JobConfig) -> Verdict:
        """The analysis of a job's configuration; a host is started where none is ready."""
        return self._ask(job, config, wait_seconds=PLAN_SECONDS, start_host=True)

    def ask_for_write(self, job: str, config: JobConfig, wait_seconds: float) -> Verdict:
        """As `ask_for_plan`, sooner, by a host that is ready. Where there is none, by one that is starting already, as
        after all hosts have ended: a write starts no host. It takes `wait_seconds` at most."""
        began = monotonic()
        verdict = self._ask(job, config, wait_seconds=min(WRITE_SECONDS, wait_seconds))
        left = began + wait_seconds - monotonic()
        if verdict.report is not None or verdict.late or left <= 0:
            return verdict
        return self._ask(job, config, wait_seconds=left, await_host=True)

    def _ask(
        self, job: str, config: JobConfig, *, wait_seconds: float, start_host: bool = False, await_host: bool = False
    ) -> Verdict:
        with snapshot(self._engine) as connection:
            urls = _in_turn(job, live_urls(connection, selector_of(config.model_dump(mode="json"))))
        if not urls:
            return Verdict(None, "no container is live")
        until = monotonic() + wait_seconds
        why: list[str] = []
        kept: AnalysisReport | None = None
        for url in urls[:_MOST_ASKED]:
            left = until - monotonic()
            if left <= 0:
                break
            request = AnalysisRequest(job=job, number=secrets.randbelow(2**53) + 1, config=config)
            call = AnalysisCall(
                request=request, wait_seconds=round(left, 3), start_host=start_host, await_host=await_host
            )
            try:
                report = self._client.analyse(url, call)
            except PenstockError as error:
                why.append(error.detail)
                continue
            # A refused login refuses no write, so a write asks nobody else about it.
            is_in_doubt = report.problems or (report.logins and start_host)
            lacks_cluster = any(problem.rule == KNOWN_CLUSTER for problem in report.problems)
            if not (lacks_cluster or (is_in_doubt and report.unchecked)):
                return Verdict(self._counted(job, config, report))
            # What this container lacks may be no problem of the job: another one may have it, and a host.
            if kept is None or (report.problems and not kept.problems):
                kept = report
        if kept is not None:
            return Verdict(self._counted(job, config, kept))
        log.info("job not analysed", job=job, why=why)
        told = "; ".join(dict.fromkeys(why)) or "no container answered in time"
        return Verdict(None, told, late=monotonic() >= until)

    def _counted(self, job: str, config: JobConfig, report: AnalysisReport) -> AnalysisReport:
        """The report without missing topics, and subjects of their schemas, that another job writes, and without what
        is wrong with the beginning of a job that is past it."""
        rules = {problem.rule for problem in report.problems}
        if not rules & {OFFSET_KEPT, *MADE_BY_WRITERS}:
            return report
        with snapshot(self._engine) as connection:
            made = topics_written(connection, besides=job) if rules & MADE_BY_WRITERS else set()
            is_past = has_run(connection, job)
        names = [name for name, source in config.inputs.items() if any(map(source.reads, made))]
        fields = {f"inputs.{name}.{leaf}" for name in names for leaf in ("topic", "topic_pattern", "schema_registry")}
        counted = [each for each in report.problems if not (is_past and each.rule == OFFSET_KEPT)]
        return report.model_copy(update={"problems": without(counted, fields)})


def without(problems: Sequence[Problem], fields: Collection[str]) -> tuple[Problem, ...]:
    """The problems but those of missing topics and subjects in these fields."""
    return tuple(each for each in problems if each.rule not in MADE_BY_WRITERS or each.field not in fields)


def _in_turn(job: str, urls: Sequence[str]) -> list[str]:
    """The addresses in an order that differs from job to job, so that not all ask one container."""
    first = sum(job.encode()) % len(urls) if urls else 0
    return [*urls[first:], *urls[:first]]
