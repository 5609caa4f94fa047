"""What `penstock doctor` thinks of what it has seen: ok, a warning or a failure, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from penstock.cli.output import span
from penstock.identity.roles import ROTATE, WARN_BELOW_DAYS, end_in_words
from penstock.wire.status import StatusView

DAY_SECONDS = 86_400
# A signed statement of a process is good for 60 s; expiries of overrides are times of the Job Service's clock.
_CLOCK_WARN_SECONDS, _CLOCK_FAIL_SECONDS = 5.0, 60.0
_DISK_WARN_BYTES, _DISK_FAIL_BYTES = 10 * 2**30, 2**30
_SCHEMA = "needed_schema"


class Level(StrEnum):
    """How well a part is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """A line of the doctor. `advice`: what to do, empty where nothing is."""

    level: Level
    part: str
    summary: str
    advice: str = ""


def clock(part: str, there: datetime, here: datetime, *, exact_seconds: float) -> Finding:
    """Two clocks, read at about the same time; the other one is known to `exact_seconds`."""
    ahead = (there - here).total_seconds()
    apart = max(0.0, abs(ahead) - exact_seconds)
    side = "ahead of" if ahead > 0 else "behind"
    if apart < _CLOCK_WARN_SECONDS:
        return Finding(Level.OK, "clock", f"agrees with that of {part}")
    level = Level.FAIL if apart >= _CLOCK_FAIL_SECONDS else Level.WARN
    return Finding(
        level, "clock", f"{part} is {span(apart)} {side} this machine", "let NTP set both clocks (`timedatectl`)"
    )


def disk(folder: str, free_bytes: int, total_bytes: int) -> Finding:
    """The free space of a folder."""
    summary = f"{free_bytes / 2**30:,.1f} of {total_bytes / 2**30:,.1f} GiB are free at {folder}"
    advice = "free some space: tasks and Postgres stop when the disk is full"
    if free_bytes < _DISK_FAIL_BYTES:
        return Finding(Level.FAIL, "disk", summary, advice)
    level = Level.WARN if free_bytes < _DISK_WARN_BYTES else Level.OK
    return Finding(level, "disk", summary, advice if level is Level.WARN else "")


def certificates(ends: Iterable[tuple[str, datetime]], now: datetime) -> Finding:
    """The certificates of an identity folder, by process, with the times at which they expire."""
    found = sorted(ends, key=lambda each: each[1])
    if not found:
        return Finding(Level.OK, "certificates", "none in the identity folder: processes sign by the loopback secret")
    name, first = found[0]
    days = (first - now).total_seconds() / DAY_SECONDS
    if days >= WARN_BELOW_DAYS:
        return Finding(Level.OK, "certificates", f"{len(found)}, good for {days:,.0f} days or more")
    level = Level.FAIL if days < 0 else Level.WARN
    return Finding(level, "certificates", f"that of {name} {end_in_words(days)}", f"run `{ROTATE}`")


def store(server: str, schema: str | None, newest: str, *, is_too_old: bool, is_newer: bool) -> Iterator[Finding]:
    """Postgres and the schema in it; `newest` is what this release has."""
    old = "Penstock needs Postgres 18 or newer: see services/POSTGRES.md" if is_too_old else ""
    yield Finding(Level.FAIL if old else Level.OK, "postgres", f"version {server}", old)
    if schema == newest:
        yield Finding(Level.OK, "migrations", f"schema {schema} is the newest that this release knows")
    elif is_newer:
        yield Finding(
            Level.WARN,
            "migrations",
            f"schema {schema} is of a newer release than this CLI, which knows {newest}",
            "use the release that the services have (services/UPGRADE.md)",
        )
    else:
        yield Finding(
            Level.FAIL,
            "migrations",
            f"schema {schema or 'none'}, and this release needs {newest}",
            "run `penstock init`, or start the services: each brings the schema up to date",
        )


def cell(status: StatusView, newest: str) -> Iterator[Finding]:
    """What `penstock status` knows, with only the parts that are not well; and whether the releases are the same."""
    bad = [line for line in status.parts if not line.ok]
    for line in bad:
        level = Level.WARN if line.part == "alerts" else Level.FAIL
        yield Finding(level, line.part, line.summary, line.advice or "see `penstock status`")
    if not bad:
        yield Finding(Level.OK, "cell", f"all {len(status.parts)} parts are well")
    needed = next((line.details[_SCHEMA] for line in status.parts if _SCHEMA in line.details), newest)
    if needed != newest:
        advice = "install the same release here: answers may have fields that this CLI does not show"
        yield Finding(
            Level.WARN, "release", f"the Job Service has schema {needed}, and this CLI knows {newest}", advice
        )
