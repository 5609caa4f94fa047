"""The job store's tables of the cluster: who leads, which containers there are, what runs there (SQLAlchemy Core).

See `penstock.store.tables`.
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

from penstock.model.reports import TaskState
from penstock.store.tables import metadata, moment, one_of
from penstock.tasks.ownership import CORDONED, DRAINING, OPEN

CONTAINER_STATES = ("live", "lost")
AVAILABILITIES = (OPEN, CORDONED, DRAINING)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True, comment="the loop or service"),
    Column("holder", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False, comment="grows with every new holder, and fences its writes"),
    Column("url", Text, nullable=False, server_default="", comment="where the holder is reached"),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    comment="Who leads each loop, and until when.",
)

containers = Table(
    "containers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("incarnation", Text, nullable=False, comment="names one life of the Task Manager process"),
    Column("url", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("cpu_cores", Double, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("disk_bytes", BigInteger, nullable=False),
    Column(
        "further_capacity", JSONB, nullable=False, server_default="{}", comment="amounts of other dimensions by name"
    ),
    Column("labels", JSONB, nullable=False, server_default="{}"),
    Column("state", Text, nullable=False),
    moment("registered_at"),
    moment("heartbeat_at", comment="for people and for a new leader"),
    Column(
        "lease_renewed_at",
        DateTime(timezone=True),
        comment="written by the Task Manager while no Shard Manager answers; holds off a fail-over",
    ),
    Column(
        "availability",
        Text,
        nullable=False,
        server_default="open",
        comment="whether it takes shards: set by an operator, or by the Shard Manager",
    ),
    Column("drain_until", DateTime(timezone=True), comment="limit of a drain; NULL: without a limit"),
    Column("availability_reason", Text),
    Column("availability_by", Text),
    Column("availability_at", DateTime(timezone=True), comment="since when it has this availability"),
    Column("placement", JSONB(none_as_null=True), comment="load that the Shard Manager placed here; NULL: unknown"),
    one_of("state", CONTAINER_STATES),
    one_of("availability", AVAILABILITIES),
    CheckConstraint("drain_until IS NULL OR availability = 'draining'", name="drain_until_of_a_drain"),
    comment="The containers (Task Managers) that ever registered and were not forgotten.",
)

assignment = Table(
    "assignment",
    metadata,
    Column("shard", Integer, primary_key=True),
    Column("container", Text, comment="NULL: nobody owns the shard"),
    Column("epoch", BigInteger, nullable=False, comment="from the counter assignment; new at every change of owner"),
    moment("moved_at"),
    Index("ix_assignment_container", "container"),
    comment="Which container owns each shard.",
)

reports = Table(
    "reports",
    metadata,
    Column("container", Text, primary_key=True),
    Column("incarnation", Text, nullable=False),
    Column("commit_number", BigInteger, nullable=False, comment="newest commit that the container knew"),
    Column("version", BigInteger, nullable=False, comment="highest assignment epoch that the container knew"),
    moment("reported_at"),
    comment="The newest full report of each container; the table tasks has the tasks of the report.",
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
    Column("epoch", BigInteger, nullable=False, comment="assignment epoch of its shard when the task was started"),
    Column("crashes", Integer, nullable=False, server_default="0"),
    Column("error", Text),
    Column("out_of_memory", Boolean, nullable=False, server_default=text("false")),
    Column("progress", JSONB(none_as_null=True)),
    moment("reported_at"),
    one_of("state", TaskState),
    Index("ix_tasks_container", "container"),
    comment="The tasks of each container, as its newest report tells them.",
)

task_loads = Table(
    "task_loads",
    metadata,
    Column("job", Text, primary_key=True),
    Column("index", Integer, primary_key=True),
    Column("generation", BigInteger, nullable=False, comment="generation that was measured"),
    Column("load", JSONB, nullable=False, comment="amounts by dimension; a dimension that is missing is unknown"),
    moment("measured_at"),
    comment="What each task uses. A row outlives the report: a task that moves is placed by what it used before.",
)

task_metrics = Table(
    "task_metrics",
    metadata,
    Column("job", Text, primary_key=True),
    Column("index", Integer, primary_key=True),
    Column("minute", DateTime(timezone=True), primary_key=True),
    Column("input_rows_per_second", Double),
    Column("processed_rows_per_second", Double, comment="rate at which it works while it works"),
    Column("input_bytes_per_second", Double),
    Column("backlog_records", BigInteger),
    Column("backlog_bytes", BigInteger),
    Column("lag_seconds", Double),
    Column("state_rows", BigInteger),
    Column("state_memory_bytes", BigInteger),
    Column("batch_seconds", Double),
    Column("out_of_memory", Boolean, nullable=False, server_default=text("false")),
    Index("ix_task_metrics_minute", "minute"),
    comment="One sample for each task and minute. NULL is unknown, never zero.",
)
