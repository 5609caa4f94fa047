"""What the job of a command may use of what its container keeps: connections and secrets. Of the supervisor's side.

A host never has more than its jobs use: what is not named by a command's configuration does not travel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from penstock.config.declare import NAME
from penstock.config.model import JobConfig, PostgresOutput
from penstock.control.logs import logger
from penstock.spark.channel import Access, Command, Prepare, RunHostTask, Start
from penstock.spark.settings import SparkSettings

log = logger(__name__)

_NAME = re.compile(NAME)
_SECRETIVE = re.compile("secret|passw|token|credential|private|access[._-]?key", re.IGNORECASE)
_IN_URL = re.compile(r"\$\{secret:([^}]*)\}")


def with_access(command: Command, settings: SparkSettings) -> Command:
    """The command with the connections and secrets that the configurations in it name, as they are now.

    What the container does not have is left out; the host then refuses the job, and says what is missing.
    """
    match command:
        case Start() | Prepare():
            configs: tuple[JobConfig, ...] = (command.spec.config,)
        case RunHostTask():
            configs = command.task.request.configs
        case _:
            return command
    access = access_of(configs, settings)
    return command.model_copy(update={"access": access}) if access != Access() else command


def access_of(configs: Iterable[JobConfig], settings: SparkSettings) -> Access:
    """The connections and secrets that the configurations name, as far as the container has them."""
    configs = tuple(configs)
    outputs = [output for config in configs for output in config.outputs.values()]
    names = {output.connection for output in outputs if isinstance(output, PostgresOutput)}
    urls = {name: settings.connections[name] for name in sorted(names & settings.connections.keys())}
    wanted = {name for config in configs for name in config.secrets.values()}
    return Access(
        connections={name: _with_secrets(url, settings.secrets_root) for name, url in urls.items()},
        secrets=read_secrets(wanted, settings.secrets_root),
    )


def read_secrets(names: Iterable[str], root: Path | None) -> Mapping[str, str]:
    """The values of those secrets that have a file below `root`, without the line end that an editor puts last."""
    found = {name: _read(root, name) for name in sorted(set(names))} if root is not None else {}
    return {name: value for name, value in found.items() if value is not None}


def values_in(access: Access) -> Iterator[str]:
    """All values of what a command brings that no text may show."""
    yield from access.secrets.values()
    for url in access.connections.values():
        yield url
        if password := password_of(url):
            yield password


def kept_values(settings: SparkSettings) -> Iterator[str]:
    """All values of the container that no text may show: secrets, connections with their passwords, what logs in
    at Kafka, and settings and variables whose names say that they are secret."""
    names = [path.name for path in settings.secrets_root.iterdir()] if settings.secrets_root is not None else []
    yield from read_secrets((name for name in names if _NAME.fullmatch(name)), settings.secrets_root).values()
    urls = {name: _with_secrets(url, settings.secrets_root) for name, url in settings.connections.items()}
    yield from values_in(Access(connections=urls))
    yield from secrets_of_kafka(settings)
    for name, value in {**settings.spark_conf, **settings.to_environment()}.items():
        if _SECRETIVE.search(name):
            yield value


def secrets_of_kafka(settings: SparkSettings) -> Iterator[str]:
    """What logs in at the Kafka clusters."""
    for kafka in settings.kafkas():
        yield from kafka.secret_values()


def password_of(url: str) -> str | None:
    """The password in a libpq URL; None without one, or when libpq cannot read it."""
    try:
        password = conninfo_to_dict(url).get("password")
    except psycopg.ProgrammingError:
        return None
    return None if password is None else str(password)


def _read(root: Path, name: str) -> str | None:
    if not _NAME.fullmatch(name):
        return None
    try:
        return (root / name).read_text().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        log.warning("secret not readable", secret=name, error=type(error).__name__)
        return None


def _with_secrets(url: str, root: Path | None) -> str:
    """`${secret:name}` is the value of that secret, as a part of a URL; one that is missing stays as it is written."""
    values = read_secrets(_IN_URL.findall(url), root)
    return _IN_URL.sub(lambda each: quote(values[each[1]], safe="") if each[1] in values else each[0], url)
