"""The allow-list of `spark_settings`: what a job may set in the session of its tasks.

Allowed is what changes only this job: each task has a session of its own, but hosts are shared. Not on the list,
and so refused: what Penstock sets itself (shuffle partitions, state store provider, checkpoint file manager),
what is shared by all tasks of a host (memory bounds, maintenance), what names a class, and what would change the
form of checkpoints, which rescaling reads and writes.
"""

from __future__ import annotations

ALLOWED_SETTINGS: frozenset[str] = frozenset(
    {
        "spark.sql.ansi.enabled",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.avro.compression.codec",
        "spark.sql.broadcastTimeout",
        "spark.sql.decimalOperations.allowPrecisionLoss",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.files.maxRecordsPerFile",
        "spark.sql.join.preferSortMergeJoin",
        "spark.sql.json.filterPushdown.enabled",
        "spark.sql.legacy.timeParserPolicy",
        "spark.sql.mapKeyDedupPolicy",
        "spark.sql.parquet.compression.codec",
        "spark.sql.parquet.filterPushdown",
        "spark.sql.parquet.outputTimestampType",
        "spark.sql.session.timeZone",
        "spark.sql.storeAssignmentPolicy",
        "spark.sql.streaming.multipleWatermarkPolicy",
        "spark.sql.streaming.noDataMicroBatches.enabled",
        "spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition",
        "spark.sql.streaming.stateStore.compression.codec",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot",
        "spark.sql.streaming.stateStore.skipNullsForStreamStreamJoins.enabled",
    }
)
ALLOWED_PREFIXES: tuple[str, ...] = (
    "spark.databricks.delta.autoCompact.",
    "spark.databricks.delta.optimizeWrite.",
    "spark.sql.adaptive.",
    "spark.sql.streaming.stateStore.rocksdb.",
)
# Below an allowed prefix, but one for all tasks of a host.
HOST_WIDE_SETTINGS: frozenset[str] = frozenset(
    {
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage",
        "spark.sql.streaming.stateStore.rocksdb.highPriorityPoolRatio",
        "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB",
        "spark.sql.streaming.stateStore.rocksdb.strictCapacityLimit",
        "spark.sql.streaming.stateStore.rocksdb.writeBufferCacheRatio",
    }
)
ALLOWED_TEXT = (
    f"{', '.join(sorted(ALLOWED_SETTINGS))}, and those that begin with {', '.join(ALLOWED_PREFIXES)} but are not of "
    f"the whole host ({', '.join(sorted(HOST_WIDE_SETTINGS))}) and name no class"
)
"""What a job may set, for people."""


def is_allowed(setting: str) -> bool:
    if setting.lower().endswith("class") or setting in HOST_WIDE_SETTINGS:
        return False
    return setting in ALLOWED_SETTINGS or setting.startswith(ALLOWED_PREFIXES)
