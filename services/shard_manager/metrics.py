"""Prometheus metrics of the Shard Manager."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

containers = Gauge("penstock_containers", "Containers known to the leader.", ["state"])
shards_without_owner = Gauge("penstock_shards_without_owner", "Shards that no container owns.")
moves_in_flight = Gauge("penstock_shard_moves_in_flight", "Shards on their way between containers.", ["phase"])
shards_moved = Counter("penstock_shards_moved", "Changes of a shard's owner that were recorded.", ["reason"])
fail_overs = Counter("penstock_fail_overs", "Containers that were declared lost.")
unconfirmed = Counter("penstock_shards_unconfirmed", "Shards whose new owner did not say in time that it took them.")
moves_planned = Counter(
    "penstock_shard_moves_planned", "Moves of shards that run, begun towards the target of placement."
)
worst_band = Gauge(
    "penstock_placement_worst_band", "Largest deviation of a container's load from its tier's mean.", ["dimension"]
)
unplaceable = Gauge("penstock_shards_unplaceable", "Shards that the last placement had no room or no container for.")
placement_seconds = Histogram("penstock_placement_seconds", "How long placing all shards took.")
