"""The job store's schema (SQLAlchemy Core). Migrations sum to exactly this; tests prove it.

Who writes what: expected_* and history, tokens, idempotency: Job Service. running, sync_state, generations: State
Syncer. savepoints: both. tasks, task_metrics: Task Service (and the Shard Manager forgets the reports of lost
containers). containers, assignment: Shard Manager (a container's own lease row: also its Task Manager, while the Shard
Manager is away; its availability: also the Job Service). decisions: Auto Scaler. leases: every loop. alerts: all.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = MetaData(naming_convention=NAMING)


def moment(name: str, *, nullable: bool = False) -> Column[object]:
    """A column for a time, now by default."""
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=func.now())


# One row a counter: taking a number locks the row until the transaction ends, so numbers are seen in order.
counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
    CheckConstraint("value >= 0", name="value_not_negative"),
)

# Facts that every process must agree on for ever, e.g. `shard_count`.
cluster = Table(
    "cluster",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", JSONB, nullable=False),
)

layers = Table(
    "layers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("rank", Integer, nullable=False, unique=True),
    Column("default_expiry_seconds", Integer),
    Column("documentation", Text, nullable=False, server_default=""),
)

# revision: of the newest write to any layer of the job. deleting: stop its tasks, then forget it.
jobs = Table(
    "jobs",
    metadata,
    Column("name", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("restarts", Integer, nullable=False, server_default="0"),
    Column("deleting", Boolean, nullable=False, server_default=text("false")),
    Column("owner", Text, nullable=False, server_default=""),
    moment("created_at"),
    CheckConstraint("restarts >= 0", name="restarts_not_negative"),
    Index("ix_jobs_revision", "revision"),
    Index("ix_jobs_owner", "owner"),
)

# config NULL: the layer was dropped; its version lives on, so that versions only grow.
expected_layers = Table(
    "expected_layers",
    metadata,
    Column("job", Text, ForeignKey("jobs.name", ondelete="CASCADE"), primary_key=True),
    Column("layer", Text, ForeignKey("layers.name"), primary_key=True),
    Column("config", JSONB(none_as_null=True)),
    Column("version", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("author", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    moment("written_at"),
    Column("expires_at", DateTime(timezone=True)),
    CheckConstraint("version >= 1", name="version_positive"),
    Index("ix_expected_layers_expires_at", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
)

# The merged configuration, complete and valid, of the layers as they were at `revision`. basis: what else it depends
# on (`penstock.config.basis`). Older than the job's newest layer, or on another basis: to be merged anew.
expected_configs = Table(
    "expected_configs",
    metadata,
    Column("job", Text, ForeignKey("jobs.name", ondelete="CASCADE"), primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("basis", Text, nullable=False),
)

# Append-only. action: put, patch, drop, expire, revert, create, delete, forget, restart, release.
history = Table(
    "history",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("job", Text, nullable=False),
    Column("layer", Text),
    Column("version", BigInteger),
    Column("revision", BigInteger, nullable=False),
    Column("action", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    moment("at"),
    Column("old", JSONB(none_as_null=True)),
    Column("new", JSONB(none_as_null=True)),
    Column("expires_at", DateTime(timezone=True)),
    Index("ix_history_job_id", "job", "id"),
    Index("ix_history_job_layer_version", "job", "layer", "version"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("layers", ARRAY(Text), nullable=False),
    moment("created_at"),
    Column("revoked_at", DateTime(timezone=True)),
    CheckConstraint("role IN ('reader','provisioner','scaler','oncall','admin')", name="role_known"),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("principal", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("headers", JSONB, nullable=False),
    Column("body", JSONB(none_as_null=True)),
    moment("at"),
    Index("ix_idempotency_at", "at"),
)

# commit_number orders commits for deltas. stopping: no task may run, since the job is being deleted or a plan holds it.
# started: some commit of the job asked for tasks; while false no checkpoint can exist, so any change is a simple one.
# newest_generation: the highest that any plan took, used or not (0: none but `generation`). rescale_seconds: what the
# steps of the last rescale took. rollout: which tasks do not run `config` yet, and what they run
# (`penstock.tasks.rollout`).
running = Table(
    "running",
    metadata,
    Column("job", Text, primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("restarts", Integer, nullable=False),
    Column("stopping", Boolean, nullable=False, server_default=text("false")),
    Column("started", Boolean, nullable=False, server_default=text("true")),
    Column("commit_number", BigInteger, nullable=False),
    Column("leader_epoch", BigInteger, nullable=False),
    moment("committed_at"),
    Column("newest_generation", BigInteger, nullable=False, server_default="0"),
    Column("rescale_seconds", JSONB(none_as_null=True)),
    Column("rollout", JSONB(none_as_null=True)),
    CheckConstraint("generation >= 1", name="generation_positive"),
    Index("ix_running_commit_number", "commit_number"),
    Index("ix_running_rescaled", "job", postgresql_where=text("generation > 1 OR newest_generation > 1")),
)

# Forgotten jobs, so that a delta can say that they are gone.
forgotten = Table(
    "forgotten",
    metadata,
    Column("job", Text, primary_key=True),
    Column("commit_number", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    moment("at"),
    Index("ix_forgotten_commit_number", "commit_number"),
)

# state: synced, pending, waiting, queued, rescaling, rolling, failed, quarantined, deleting. No row: never looked at.
# plan: the recorded intent of a rescale or a rollout, step: the index of the step that it is in. rejected: the package
# that a rollout was halted with (`penstock.tasks.rollout`), until nothing holds it back any more.
sync_state = Table(
    "sync_state",
    metadata,
    Column("job", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("detail", Text, nullable=False, server_default=""),
    Column("revision", BigInteger, nullable=False),
    Column("change_kind", Text, nullable=False, server_default="none"),
    Column("changed_fields", ARRAY(Text), nullable=False, server_default="{}"),
    Column("plan", JSONB(none_as_null=True)),
    Column("step", Integer),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("next_attempt_at", DateTime(timezone=True)),
    moment("updated_at"),
    Column("rejected", JSONB(none_as_null=True)),
    CheckConstraint("failures >= 0", name="failures_not_negative"),
    Index("ix_sync_state_plan", "job", postgresql_where=text("plan IS NOT NULL")),
    Index("ix_sync_state_rejected", "job", postgresql_where=text("rejected IS NOT NULL")),
    # Room for a page's rows to be changed in place, without their index: a release changes all of them.
    postgresql_with={"fillfactor": 50},
)

# A savepoint outlives its job until it is deleted. generation to container: what is copied and who was asked, recorded
# before anybody is; NULL before. tasks, bytes: of one that is ready.
savepoints = Table(
    "savepoints",
    metadata,
    Column("number", BigInteger, Identity(always=True), primary_key=True),
    Column("job", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("state", Text, nullable=False, server_default="asked"),
    Column("detail", Text, nullable=False, server_default=""),
    Column("generation", BigInteger),
    Column("revision", BigInteger),
    Column("config", JSONB(none_as_null=True)),
    Column("container", Text),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("tasks", JSONB(none_as_null=True)),
    Column("bytes", BigInteger),
    Column("author", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    moment("created_at"),
    Column("finished_at", DateTime(timezone=True)),
    CheckConstraint("state IN ('asked','ready','failed','deleting')", name="state_known"),
    Index("uq_savepoints_job_name", "job", "name", unique=True),
    Index("ix_savepoints_open", "number", postgresql_where=text("state IN ('asked','deleting')")),
)

# A restore that is to be done, one a job: from which savepoint, and what that is of. Gone once it was done.
restores = Table(
    "restores",
    metadata,
    Column("job", Text, ForeignKey("jobs.name", ondelete="CASCADE"), primary_key=True),
    Column("number", BigInteger, Identity(always=True), nullable=False),
    Column("savepoint", BigInteger, nullable=False),
    Column("savepoint_job", Text, nullable=False),
    Column("savepoint_name", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("config", JSONB, nullable=False),
    moment("created_at"),
    Index("ix_restores_savepoint", "savepoint"),
)

# Generations of jobs that have had several, or are forgotten, until their files are gone. The newest of a job stays: it
# says up to which they are noted. unused_since NULL: it runs, or a plan writes it. attempted: no commit ever named
# it. container to next_attempt_at: who was asked to delete its files, and when another may be.
generations = Table(
    "generations",
    metadata,
    Column("job", Text, primary_key=True),
    Column("generation", BigInteger, primary_key=True, autoincrement=False),
    Column("attempted", Boolean, nullable=False, server_default=text("false")),
    Column("unused_since", DateTime(timezone=True)),
    Column("container", Text),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("detail", Text, nullable=False, server_default=""),
    Column("next_attempt_at", DateTime(timezone=True)),
    Column("collected_at", DateTime(timezone=True)),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("job", Text, nullable=False),
    moment("at"),
    Column("symptom", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("inputs", JSONB, nullable=False),
    Column("change", JSONB(none_as_null=True)),
    Column("outcome", Text, nullable=False),
    Column("leader_epoch", BigInteger, nullable=False),
    Index("ix_decisions_job_id", "job", "id"),
)

# One open row a (kind, subject): raising again only counts.
alerts = Table(
    "alerts",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("details", JSONB, nullable=False, server_default="{}"),
    Column("times", Integer, nullable=False, server_default="1"),
    moment("raised_at"),
    moment("last_at"),
    Column("cleared_at", DateTime(timezone=True)),
    Index("uq_alerts_open", "kind", "subject", unique=True, postgresql_where=text("cleared_at IS NULL")),
)
