"""Where the CLI finds Kafka. Apart from its other settings: most calls do not need it, and its import takes time."""

from __future__ import annotations

from typing import Self

from penstock.cli.settings import CliSettings
from penstock.kafka.access import Kafka
from penstock.kafka.clusters import clusters_of
from penstock.kafka.settings import KafkaSettings


class CliKafkaSettings(CliSettings, KafkaSettings):
    """All `PENSTOCK_*` variables that the CLI reads."""

    @classmethod
    def read(cls) -> Self:
        """The settings of this shell; of `penstock up` also its clusters. Raises UserError."""
        settings = super().read()
        noted = settings.stack().get("kafka_clusters")
        if settings.kafka_clusters is not None or not noted:
            return settings
        return settings.model_copy(update={"kafka_clusters": clusters_of(noted)})

    def kafka(self, cluster: str | None = None) -> Kafka:
        """How a cluster is reached; None: the cell's own. Raises UserError when there is none of this name, Unavailable
        when a file of its settings cannot be read."""
        if cluster is not None:
            return self.further_cluster(cluster)
        bootstrap = self.kafka_bootstrap or str(self.stack().get("kafka_bootstrap", "127.0.0.1:19092"))
        return self.kafka_of(bootstrap)
