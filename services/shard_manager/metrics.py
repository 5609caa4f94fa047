"""Prometheus metrics of the Shard Manager."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

containers = Gauge("penstock_containers", "Containers known to the leader.", ["state"])
shards_without_owner = Gauge("penstock_shards_without_owner", "Shards that no container owns.")
moves_in_flight = Gauge("penstock_shard_moves_in_flight", "Shards on their way between containers.", ["phase"])
shards_moved = Counter("penstock_shards_moved", "Changes of a shard's owner that were recorded.", ["reason"])
fail_overs = Counter("penstock_fail_overs", "Containers that were declared lost.")
unconfirmed = Counter("penstock_shards_unconfirmed", "Shards whose new owner did not say in time that it took them.")
