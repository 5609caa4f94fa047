"""The jobs that a write could make late, or be late for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, text

from penstock.config.declare import ROLLBACK_LAYER
from penstock.config.topic_patterns import covers, is_pattern
from penstock.control.errors import UserError
from penstock.model.jobs import Action, Change
from services.job_service.flows import topics_read_by
from services.job_service.late_producers import (
    may_be_late,
    may_know_time,
    may_matter,
    notes,
    require_no_late_rows,
    topics_written,
    waits_for,
)
from services.job_service.store import flows
from services.job_service.time_notes import time_notes

Config = Mapping[str, Any]
# A topic may have thousands of readers. One that must not be is found by its own next write, too.
_MOST_READ = 200
# A chain is followed so far.
_MOST_JOBS = 1_000
_CONFIGS = text(
    """
    SELECT job, jsonb_build_object('query', config->'query', 'inputs', config->'inputs', 'streams', config->'streams',
        'output', config->'output', 'side_outputs', config->'side_outputs') AS config
    FROM expected_configs WHERE job = ANY(:jobs)
    """
)
# What was expected of a job, and what it runs. Some release may have stored what is no job by the rules of this one.
_BEFORE = text(
    """
    SELECT jsonb_build_object('query', config->'query', 'inputs', config->'inputs', 'streams', config->'streams',
        'output', config->'output', 'side_outputs', config->'side_outputs') AS config
    FROM (
        SELECT config FROM expected_configs WHERE job = :job
        UNION ALL SELECT config FROM running WHERE job = :job AND started) AS each
    WHERE config->'output'->>'type' IS NOT NULL
    """
)


def refused(connection: Connection, changes: Mapping[int, Change]) -> dict[int, UserError]:
    """Why some of the changes, given by position, must not be. Each is seen as if the others were made. None is refused
    that ends an override or brings back a package that worked: nobody is there to mend it. The tasks have the alerts
    `not_awaited` and `late_rows`."""
    found: dict[int, UserError] = {}
    written = {change.job: change.merged for change in changes.values() if change.merged is not None}
    around = _Around(connection, written)
    for position, change in changes.items():
        if change.merged is None or not is_asked(change):
            continue
        try:
            _require(around, change.job, change.merged)
        except UserError as error:
            found[position] = error
    return found


def check(connection: Connection, job: str, config: Config) -> None:
    """Raises InvalidConfig when a write of this configuration would be refused now. Changes nothing."""
    _require(_Around(connection, {job: config}), job, config)


def notes_of(connection: Connection, job: str, config: Config) -> list[str]:
    """What a plan says of rows that may be late for the job, or wait in it, where no write is refused for them."""
    others = _Around(connection, {job: config}).find(job, config)
    return [*notes(job, config, others), *time_notes(config, others)]


def _require(around: _Around, job: str, config: Config) -> None:
    if may_be_late(config):
        before = around.before(job)
        require_no_late_rows(job, before, config, around.find(job, config, before))


def is_asked(change: Change) -> bool:
    """Whether a change may make rows late, and is refused for that."""
    is_let_be = change.action is Action.EXPIRE or change.layer == ROLLBACK_LAYER
    return change.merged is not None and not is_let_be and may_matter(change.old or {}, change.new or {})


class _Around:
    """Finds the configurations of jobs that one which is written reads from and writes to, by way of others too, as
    far as these pass event time on. `written`: what other configurations are to become."""

    def __init__(self, connection: Connection, written: Mapping[str, Config]) -> None:
        self._connection = connection
        self._written = written
        self._writers = _by_name(written, topics_written)
        self._readers = _by_name(written, topics_read_by)

    def before(self, job: str) -> list[Config]:
        """What was expected of it until now, and what it runs."""
        return list(self._connection.execute(_BEFORE, {"job": job}).scalars())

    def find(self, job: str, config: Config, before: Iterable[Config] = ()) -> dict[str, Config]:
        """The jobs that matter, without the job itself; also those by which it had its event time `before`."""
        known = {job: config}
        self._add_below(known, config)
        passed_on = {name for each in (*known.values(), *before) for name in _passed_on(each)}
        self._add_above(known, _sources(config) | passed_on)
        del known[job]
        return known

    def _add_below(self, known: dict[str, Config], config: Config) -> None:
        names = set(topics_written(config))
        while names and len(known) < _MOST_JOBS:
            found = [flow.job for flow in flows.readers(self._connection, names, list(known), _MOST_READ)]
            fresh = self._configs({*found, *_meeting(self._readers, names)} - known.keys())
            known |= fresh
            names = {topic for each in fresh.values() if not may_know_time(each) for topic in topics_written(each)}

    def _add_above(self, known: dict[str, Config], names: set[str]) -> None:
        seen: set[str] = set()
        while names - seen and len(known) < _MOST_JOBS:
            seen |= names
            found = [flow.job for flow in flows.fillers(self._connection, names, list(known), _MOST_READ)]
            fresh = self._configs({*found, *_meeting(self._writers, names)} - known.keys())
            known |= fresh
            names = {name for each in fresh.values() for name in _passed_on(each)}

    def _configs(self, jobs: Collection[str]) -> dict[str, Config]:
        asked = [job for job in jobs if job not in self._written]
        rows = self._connection.execute(_CONFIGS, {"jobs": asked}) if asked else ()
        return {row.job: row.config for row in rows} | {job: self._written[job] for job in jobs if job in self._written}


def _sources(config: Config) -> set[str]:
    return {*waits_for(config), *_passed_on(config)}


def _passed_on(config: Config) -> set[str]:
    """The topics whose event time a job without its own passes on."""
    return set() if may_know_time(config) else {name for name in topics_read_by(config) if not is_pattern(name)}


def _by_name(
    configs: Mapping[str, Config], names_of: Callable[[Config], Iterable[str]]
) -> Mapping[str, Collection[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for job, config in configs.items():
        for name in names_of(config):
            found[name].add(job)
    return found


def _meeting(jobs: Mapping[str, Collection[str]], names: Collection[str]) -> set[str]:
    """The jobs at one of the topics. On both sides there may be patterns, which are few."""
    given = [name for name in names if is_pattern(name)]
    met = {job for name in names for job in jobs.get(name, ())}
    met |= {job for name, of_name in jobs.items() if any(covers(each, name) for each in given) for job in of_name}
    return met | {
        job
        for name, of_name in jobs.items()
        if is_pattern(name) and any(covers(name, topic) for topic in names)
        for job in of_name
    }
