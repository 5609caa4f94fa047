"""The Job Service, as the commands reach it, and the line about a write that was done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.cli.output import end, say
from penstock.cli.parse import json_object
from penstock.cli.reach import Explaining, connected
from penstock.cli.settings import CliSettings
from penstock.config.topics import full_topic
from penstock.control.errors import Conflict, Unauthenticated, Unavailable
from penstock.control.texts import first_few, likely
from penstock.model.jobs import Action
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import Written

_BUS = "bus "
"""Begins the parts of a cell's status that are its further Kafka clusters."""


class _Client(Explaining, JobClient):
    """A client that says what to look at when nobody answers."""


def client() -> JobClient:
    """A client with the settings of this shell. Raises UserError when the address or the token is missing."""
    return connected(_Client)


def definition(job: str, config: str) -> dict[str, Any]:
    """A configuration that a user gives. In a file `${data_dir}` and `${job}` are replaced. Raises UserError."""
    return json_object(config, names=names_in_files(job))


def names_in_files(job: str) -> dict[str, str]:
    """What is replaced in the file of a configuration."""
    return {"data_dir": str(CliSettings.read().data_dir.resolve()), "job": job}


def say_written(written: Written) -> None:
    """Says in one line which write was done, and what to know of it."""
    version = "" if written.version is None else f", version {written.version}"
    layer = "" if written.layer is None else f" {written.layer}"
    ends = "" if written.expires_at is None else f", ends {end(written.expires_at)}"
    say(f"{written.action} {written.job}{layer}: revision {written.revision}{version}{ends}")
    if written.verified is False:
        say(f"accepted, not verified: {written.why}; `penstock plan {written.job}` checks it")
        say(f"  {_until_checked(written)}; see `penstock why {written.job}`")
    for note in written.notes:
        say(f"NOTE {note}")


def _until_checked(written: Written) -> str:
    """What a job does with a query that no host has checked yet. One that was created now has no other to run."""
    if written.action == Action.CREATE:
        return (
            "the job is new: its tasks check the query when they start, and do not run if it is wrong; what only "
            "records show (keys, times, a schema that does not fit) is told by alerts"
        )
    return "a job that runs keeps its query until a host has checked the new one"


def say_more(cursor: str | None) -> None:
    """Says that an answer is only the first page, when there are more."""
    if cursor is not None:
        say("there are more: only the first page is shown")


def require_unused_topic(name: str) -> None:
    """Raises Conflict when a job reads or writes a topic, by its full name, or when the Job Service cannot be asked:
    one may."""
    with asking_for_users("topic", name):
        users = [job.job for job in client().list_jobs(topic=name)]
    require_no_users("topic", name, users)


def require_cluster_of_cell(cluster: str, topic: str) -> None:
    """Raises Conflict when the cell has no Kafka cluster of this name, or cannot be asked: its jobs may know these
    brokers by another one."""
    with asking_for_users("topic", full_topic(topic, cluster)):
        status = client().status()
    require_named(cluster, [line.part for line in status.parts])


def require_named(cluster: str, parts: Iterable[str]) -> None:
    """Raises Conflict unless the cluster is among the parts of a cell's status. Pure."""
    names = sorted(part.removeprefix(_BUS) for part in parts if part.startswith(_BUS))
    if cluster not in names:
        raise Conflict(
            f"the cell has no Kafka cluster {cluster}; {likely(cluster, names)}. Its jobs may know these "
            "brokers by another name, and use the topic. Use the cell's name in PENSTOCK_KAFKA_CLUSTERS of this shell, "
            "or add --force",
            field="cluster",
            rule="known_cluster",
        )


def require_no_users(field: str, name: str, users: Sequence[str]) -> None:
    """Raises Conflict when there are `users`, the jobs that use a topic or package (`field`)."""
    if users:
        raise Conflict(
            f"{name} is a {field} of {first_few(users)}: give the job another {field}, or delete it, first; or add "
            "--force",
            field=field,
            rule="unused",
        )


@contextmanager
def asking_for_users(field: str, name: str) -> Iterator[None]:
    """Nobody knows whether something is unused when the Job Service does not answer: raises Conflict."""
    try:
        yield
    except (Unavailable, Unauthenticated) as error:
        raise Conflict(
            f"nobody can say whether a job uses {name}: {error.detail}. With --force it is deleted unasked",
            field=field,
            rule="unused",
        ) from error
