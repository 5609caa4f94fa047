"""The part of the job store's schema that tells of the cluster: who leads, which containers there are, what runs there.

Who writes what: see `penstock.store.tables`.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from penstock.store.tables import metadata, moment

# The lease of a loop. epoch grows with every new holder and fences its writes.
leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("url", Text, nullable=False, server_default=""),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)

# state: live, lost. heartbeat_at is for people and new leaders; lease_renewed_at is written by the Task Manager
# itself while no Shard Manager answers, and holds off a fail-over. further_capacity: amounts of other dimensions
# by name. availability and what follows it: `penstock.store.availability`; drain_until NULL: a drain without a limit.
# placement: what the Shard Manager last placed there, NULL: unknown.
containers = Table(
    "containers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("incarnation", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("cpu_cores", Double, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("disk_bytes", BigInteger, nullable=False),
    Column("further_capacity", JSONB, nullable=False, server_default="{}"),
    Column("labels", JSONB, nullable=False, server_default="{}"),
    Column("state", Text, nullable=False),
    moment("registered_at"),
    moment("heartbeat_at"),
    Column("lease_renewed_at", DateTime(timezone=True)),
    Column("availability", Text, nullable=False, server_default="open"),
    Column("drain_until", DateTime(timezone=True)),
    Column("availability_reason", Text),
    Column("availability_by", Text),
    Column("availability_at", DateTime(timezone=True)),
    Column("placement", JSONB(none_as_null=True)),
    CheckConstraint("state IN ('live','lost')", name="state_known"),
    CheckConstraint("availability IN ('open','cordoned','draining')", name="availability_known"),
    CheckConstraint("drain_until IS NULL OR availability = 'draining'", name="drain_until_of_a_drain"),
)

# epoch: from the counter `assignment`, new at every change of owner. container NULL: nobody owns it.
assignment = Table(
    "assignment",
    metadata,
    Column("shard", Integer, primary_key=True),
    Column("container", Text),
    Column("epoch", BigInteger, nullable=False),
    moment("moved_at"),
    Index("ix_assignment_container", "container"),
)

# The newest full report of each container; `tasks` holds its tasks.
reports = Table(
    "reports",
    metadata,
    Column("container", Text, primary_key=True),
    Column("incarnation", Text, nullable=False),
    Column("commit_number", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    moment("reported_at"),
)

tasks = Table(
    "tasks",
    metadata,
    Column("job", Text, primary_key=True),
    Column("index", Integer, primary_key=True),
    Column("container", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("restarts", Integer, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("crashes", Integer, nullable=False, server_default="0"),
    Column("error", Text),
    Column("out_of_memory", Boolean, nullable=False, server_default=text("false")),
    Column("progress", JSONB(none_as_null=True)),
    moment("reported_at"),
    Index("ix_tasks_container", "container"),
)

# What a task uses: amounts by dimension, a missing one is unknown. Outlives the report, for a task that moves is to be
# placed by what it used. generation: that which was measured.
task_loads = Table(
    "task_loads",
    metadata,
    Column("job", Text, primary_key=True),
    Column("index", Integer, primary_key=True),
    Column("generation", BigInteger, nullable=False),
    Column("load", JSONB, nullable=False),
    moment("measured_at"),
)

# A sample a job and minute, for the Auto Scaler and `/metrics` of a job. NULL is unknown.
task_metrics = Table(
    "task_metrics",
    metadata,
    Column("job", Text, primary_key=True),
    Column("index", Integer, primary_key=True),
    Column("minute", DateTime(timezone=True), primary_key=True),
    Column("input_rows_per_second", Double),
    Column("processed_rows_per_second", Double),
    Column("input_bytes_per_second", Double),
    Column("backlog_records", BigInteger),
    Column("backlog_bytes", BigInteger),
    Column("lag_seconds", Double),
    Column("state_rows", BigInteger),
    Column("state_memory_bytes", BigInteger),
    Column("batch_seconds", Double),
    Column("out_of_memory", Boolean, nullable=False, server_default=text("false")),
    Index("ix_task_metrics_minute", "minute"),
)
