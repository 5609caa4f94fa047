"""What `penstock doctor` looks at. Each check asks one thing, waits for seconds at most, and changes nothing."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from penstock.cli import findings
from penstock.cli.connection import client
from penstock.cli.findings import Finding, Level
from penstock.cli.kafka_settings import CliKafkaSettings
from penstock.cli.settings import CliSettings
from penstock.control.errors import PenstockError, TerminalError, Unavailable
from penstock.control.masks import mask_urls
from penstock.identity.folder import AUTHORITY, IdentityFolder
from penstock.identity.roles import WARN_BELOW_DAYS
from penstock.kafka.access import CLUSTERS
from penstock.local.jars import java_home, kafka_classpath, share_dir, spark_jars
from penstock.local.topics import require_listening, topic_count
from penstock.spark.stores import fetch_advice, missing_jars
from penstock.store.migrate import head, store_facts

_UP = "start it with `penstock up`, or name one with PENSTOCK_URL and PENSTOCK_TOKEN"


class Check(NamedTuple):
    """A check, and the part that it is about when it fails as a whole."""

    part: str
    run: Callable[[CliKafkaSettings], Iterator[Finding]]


def found(settings: CliKafkaSettings) -> Iterator[Finding]:
    """The findings of all checks, each as soon as it is known."""
    for check in CHECKS:
        try:
            yield from check.run(settings)
        except (PenstockError, OSError) as error:
            yield Finding(Level.FAIL, check.part, " ".join(str(error).split()), _ADVICE.get(check.part, ""))


def _release(_: CliSettings) -> Iterator[Finding]:
    yield Finding(Level.OK, "penstock", f"{version('penstock')}, with Python {platform.python_version()}")


def _java(settings: CliSettings) -> Iterator[Finding]:
    # The CLI alone, of a cell that runs elsewhere, needs none.
    missing = Level.FAIL if settings.url is None else Level.WARN
    for part, look in (("java", java_home), ("jars", _jars)):
        try:
            yield Finding(Level.OK, part, str(look()))
        except TerminalError as error:
            yield Finding(missing, part, error.detail, "only needed where `penstock up`, `demo` or Task Managers run")


def _jars() -> str:
    kafka_classpath()
    return f"{len(spark_jars())} for Spark, and those of Kafka"


def _checkpoints(settings: CliSettings) -> Iterator[Finding]:
    root = settings.checkpoint_root
    # Only Task Managers have the setting.
    if root is None:
        return
    missing = missing_jars([root], share_dir() / "jars")
    if missing:
        yield Finding(Level.FAIL, "checkpoints", f"there are no jars for {root}", fetch_advice(missing))
    else:
        yield Finding(Level.OK, "checkpoints", f"{root}; the first start of a task tells whether it can be used")


def _disk(settings: CliSettings) -> Iterator[Finding]:
    folder = settings.data_dir.absolute()
    present = next(each for each in (folder, *folder.parents) if each.exists())
    usage = shutil.disk_usage(present)
    yield findings.disk(str(present), usage.free, usage.total)


def _certificates(settings: CliSettings) -> Iterator[Finding]:
    folder, now = settings.identity_folder(), datetime.now(UTC)
    if not (folder / AUTHORITY).exists():
        yield Finding(Level.OK, "certificates", f"no authority in {folder}")
        return
    issued = [(str(each.caller), each.expires_at) for each in IdentityFolder(folder).issued()]
    yield findings.certificates(issued, now)
    gone = [each for each in IdentityFolder(folder).elsewhere(now) if _ends_soon(each.expires_at, now)]
    for each in gone:
        yield Finding(Level.WARN, "certificates", f"that of {each.caller} in {each.folder} ends soon", each.command())


def _ends_soon(expires_at: datetime, now: datetime) -> bool:
    return (expires_at - now).total_seconds() < WARN_BELOW_DAYS * findings.DAY_SECONDS


def _store(settings: CliSettings) -> Iterator[Finding]:
    url = settings.store_url()
    if url is None:
        yield Finding(Level.OK, "postgres", "not asked: PENSTOCK_DATABASE_URL does not name it")
        return
    before = datetime.now(UTC)
    seen = store_facts(url)
    yield findings.clock("postgres", seen.now, before, exact_seconds=(datetime.now(UTC) - before).total_seconds())
    yield from findings.store(seen.server, seen.schema, head(), is_too_old=seen.is_too_old, is_newer=seen.is_newer)


def _kafka(settings: CliKafkaSettings) -> Iterator[Finding]:
    if settings.kafka_bootstrap is None and not settings.is_local():
        yield Finding(Level.OK, "kafka", "not asked: PENSTOCK_KAFKA_BOOTSTRAP does not name it")
        return
    kafka = settings.kafka()
    require_listening(kafka)
    yield Finding(Level.OK, "kafka", f"{topic_count(kafka)} topics at {kafka}")


def _clusters(settings: CliKafkaSettings) -> Iterator[Finding]:
    for name in settings.cluster_names:
        part = f"kafka {name}"
        try:
            kafka = settings.kafka(name)
            require_listening(kafka)
            yield Finding(Level.OK, part, f"{topic_count(kafka)} topics at {kafka.bootstrap}")
        except PenstockError as error:
            yield Finding(Level.FAIL, part, error.detail, f"is it running? {CLUSTERS} says where")


def _job_service(settings: CliSettings) -> Iterator[Finding]:
    if settings.url is None and not settings.is_local():
        yield Finding(Level.WARN, "job service", f"no stack is known in {settings.data_dir.absolute()}", _UP)
        return
    url = mask_urls(settings.service_url())
    settings.bearer_token()
    with client() as connection:
        before = datetime.now(UTC)
        try:
            date = connection.send("GET", "/healthz").headers.get("date")
        except Unavailable as error:
            yield Finding(Level.FAIL, "job service", error.detail.partition(": ")[0], _UP)
            return
        yield Finding(Level.OK, "job service", f"answers at {url}")
        if date is not None:
            took = (datetime.now(UTC) - before).total_seconds()
            yield findings.clock("the Job Service", parsedate_to_datetime(date), before, exact_seconds=took + 1)
        status = connection.status()
        yield Finding(Level.OK, "token", "is taken")
        yield from findings.cell(status, head())


def _token_file(settings: CliSettings) -> Iterator[Finding]:
    path: Path = settings.data_dir / "admin.token"
    if settings.token is None and path.exists() and path.stat().st_mode & 0o077:
        yield Finding(Level.WARN, "token", f"{path} can be read by others", f"run chmod 600 {path}")


CHECKS = (
    Check("penstock", _release),
    Check("java", _java),
    Check("checkpoints", _checkpoints),
    Check("disk", _disk),
    Check("certificates", _certificates),
    Check("postgres", _store),
    Check("kafka", _kafka),
    Check("kafka", _clusters),
    Check("token", _token_file),
    Check("job service", _job_service),
)
_ADVICE: Mapping[str, str] = {
    "postgres": "is it running? PENSTOCK_DATABASE_URL, else `penstock up`, says where; see services/POSTGRES.md",
    "kafka": "is it running? PENSTOCK_KAFKA_BOOTSTRAP, else `penstock up`, says where",
    "job service": "set PENSTOCK_TOKEN to a good token; `penstock init --recover` makes a further admin token",
    "certificates": "see libs/penstock/identity/README.md",
}
