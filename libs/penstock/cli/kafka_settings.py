"""Where the CLI finds Kafka. Apart from its other settings: most calls do not need it, and its import takes time."""

from __future__ import annotations

from penstock.cli.settings import CliSettings
from penstock.kafka.access import Kafka
from penstock.kafka.settings import KafkaSettings


class CliKafkaSettings(CliSettings, KafkaSettings):
    """All `PENSTOCK_*` variables that the CLI reads."""

    def kafka(self) -> Kafka:
        """How Kafka is reached. Raises Unavailable when a file of its settings cannot be read."""
        bootstrap = self.kafka_bootstrap or str(self.stack().get("kafka_bootstrap", "127.0.0.1:19092"))
        return self.kafka_of(bootstrap)
