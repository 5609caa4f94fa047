"""Settings of the one-machine stack: where downloaded parts are kept and which Java runs them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from penstock.kafka.access import CLUSTERS

_OF_KAFKA = "PENSTOCK_KAFKA_"


class LocalSettings(BaseSettings):
    """Read from the environment (`PENSTOCK_*`, and `JAVA_HOME`)."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_", extra="ignore")

    share: Path = Field(Path(sys.prefix) / "share" / "penstock", description="folder of jars and other fetched parts")
    java_home: Path | None = Field(
        default=None,
        validation_alias=AliasChoices("PENSTOCK_JAVA_HOME", "JAVA_HOME"),
        description="a JDK 17 to prefer over those that are found",
    )


def child_environment(changes: Mapping[str, str], *, own_kafka: bool) -> dict[str, str]:
    """This process's environment with `changes`, for a child; read here because only settings may read it.

    With a Kafka of its own, which is open, a stack leaves out how another one is reached in its place.
    """
    given = {name: value for name, value in os.environ.items() if not (own_kafka and _is_of_own(name))}
    return {**given, **changes}


def _is_of_own(name: str) -> bool:
    """Whether a variable says how the cell's own Kafka is reached."""
    return name.startswith(_OF_KAFKA) and name != CLUSTERS


def server_environment() -> dict[str, str]:
    """The same for Postgres and Kafka, which need no setting of Penstock and learn no secret of it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
