"""Prometheus metrics of the Shard Manager."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

containers = Gauge("penstock_containers", "Containers known to the leader.", ["state"])
shards_without_owner = Gauge("penstock_shards_without_owner", "Shards that no container owns.")
moves_in_flight = Gauge("penstock_shard_moves_in_flight", "Shards that move between containers.", ["phase"])
shards_moved = Counter("penstock_shards_moved", "Recorded changes of a shard's owner.", ["reason"])
fail_overs = Counter("penstock_fail_overs", "Containers that were declared lost.")
unconfirmed = Counter("penstock_shards_unconfirmed", "Shards whose new owner did not confirm them in time.")
moves_planned = Counter("penstock_shard_moves_planned", "Started moves of running shards.")
worst_band = Gauge(
    "penstock_placement_worst_band", "Largest deviation of a container's load from its tier's mean.", ["dimension"]
)
unplaceable = Gauge("penstock_shards_unplaceable", "Shards without room or a suitable container in the last placement.")
placement_seconds = Histogram("penstock_placement_seconds", "How long placing all shards took.")
order_seconds = Histogram(
    "penstock_shard_order_seconds",
    "How long containers took for DROP_SHARD and ADD_SHARD, late answers included.",
    ["verb"],
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
)
start_seconds = Histogram(
    "penstock_container_start_seconds",
    "Median task start of each container, at each check.",
    buckets=(0.1, 0.3, 1, 3, 10, 30, 100, 300),
)
set_aside = Counter("penstock_containers_set_aside", "Containers that the Shard Manager cordoned or drained.", ["kind"])
