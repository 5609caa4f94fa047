"""The job store's tables of jobs and what is expected of them (SQLAlchemy Core); `cluster_tables.py` has the rest.

Each comment here is also a comment in the database. The migrations sum to exactly these tables; tests prove it.
The README says who writes and who reads each table.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
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

from penstock.config.declare import ChangeKind
from penstock.model.jobs import ROLES, Action, JobState

SAVEPOINT_STATES = ("asked", "ready", "failed", "deleting")
PLAN_KINDS = ("rescale", "rollout")
CHANGE_KINDS = tuple(kind.name.lower() for kind in ChangeKind)
# `stopped` is not stored: a reader derives it from the running configuration.
SYNC_STATES = tuple(state for state in JobState if state is not JobState.STOPPED)

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = MetaData(naming_convention=NAMING)


# Facts that PostgreSQL copies out of a configuration with each write, for statements that do not read it.
ASKS_FOR_TASKS = "coalesce(config->>'desired_state', '') = 'running'"
PRIORITY = "coalesce((config->>'priority')::integer, 0)"


def moment(name: str, *, nullable: bool = False, comment: str | None = None) -> Column[object]:
    """A column for a time, now by default."""
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=func.now(), comment=comment)


def digests() -> Column[object]:
    """A column for the digests of `config`."""
    text_ = "digest of config by change kind (penstock.tasks.digests); {}: not computed"
    return Column("digests", JSONB, nullable=False, server_default="{}", comment=text_)


def one_of(column: str, values: Iterable[str], *, expression: str = "") -> CheckConstraint:
    """A CHECK that a text column, or an expression over it, has one of these values (or is NULL)."""
    listed = ",".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{expression or column} IN ({listed})", name=f"{column}_known")


counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False, comment="the number that was handed out last"),
    CheckConstraint("value >= 0", name="value_not_negative"),
    comment="One row for each counter. Taking a number locks the row until commit, so numbers become visible in order.",
)

cluster = Table(
    "cluster",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", JSONB, nullable=False),
    comment="Facts that every process of the cell must agree on, such as shard_count (penstock.store.cluster).",
)

layers = Table(
    "layers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("rank", Integer, nullable=False, unique=True, comment="a layer of a higher rank overrides lower ones"),
    Column("default_expiry_seconds", Integer, comment="when a write expires by default; NULL: never"),
    Column("documentation", Text, nullable=False, server_default=""),
    CheckConstraint("default_expiry_seconds > 0", name="default_expiry_positive"),
    comment="The layers that a configuration can have. An administrator can add one.",
)

jobs = Table(
    "jobs",
    metadata,
    Column("name", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False, comment="revision of the newest write to any layer of the job"),
    Column("restarts", Integer, nullable=False, server_default="0", comment="how often a restart was asked for"),
    Column(
        "deleting",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="true: the State Syncer stops the tasks and then forgets the job",
    ),
    Column("owner", Text, nullable=False, server_default=""),
    moment("created_at"),
    CheckConstraint("restarts >= 0", name="restarts_not_negative"),
    Index("ix_jobs_revision", "revision"),
    Index("ix_jobs_owner", "owner"),
    comment="The jobs that exist, including those that are being deleted.",
)

expected_layers = Table(
    "expected_layers",
    metadata,
    Column("job", Text, ForeignKey("jobs.name", ondelete="CASCADE"), primary_key=True),
    Column("layer", Text, ForeignKey("layers.name"), primary_key=True),
    Column("config", JSONB(none_as_null=True), comment="NULL: the layer was dropped; its version goes on growing"),
    Column("version", BigInteger, nullable=False, comment="grows by one with each write; used for compare-and-swap"),
    Column("revision", BigInteger, nullable=False),
    Column("author", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    moment("written_at"),
    Column("expires_at", DateTime(timezone=True), comment="when the layer is dropped; NULL: never"),
    CheckConstraint("version >= 1", name="version_positive"),
    Index("ix_expected_layers_expires_at", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
    comment="What each layer of each job sets.",
)

expected_configs = Table(
    "expected_configs",
    metadata,
    Column("job", Text, ForeignKey("jobs.name", ondelete="CASCADE"), primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("revision", BigInteger, nullable=False, comment="revision of the newest layer that was merged"),
    Column("basis", Text, nullable=False, comment="what else the merge depends on (penstock.config.basis)"),
    digests(),
    Column("asks_for_tasks", Boolean, Computed(ASKS_FOR_TASKS, persisted=True), nullable=False),
    Column("priority", Integer, Computed(PRIORITY, persisted=True), nullable=False),
    CheckConstraint("jsonb_typeof(digests) = 'object'", name="digests_by_name"),
    comment="The complete, valid configuration that the layers of a job merge to. A row that is older than a layer of "
    "the job, or on another basis, is stale: it must be merged again.",
)

history = Table(
    "history",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("job", Text, nullable=False),
    Column("layer", Text, comment="NULL: the write changed no layer"),
    Column("version", BigInteger, comment="version of the layer after the write"),
    Column("revision", BigInteger, nullable=False),
    Column("action", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    moment("at"),
    Column("old", JSONB(none_as_null=True), comment="the layer before the write"),
    Column("new", JSONB(none_as_null=True), comment="the layer after the write"),
    Column("expires_at", DateTime(timezone=True)),
    one_of("action", Action),
    Index("ix_history_job_id", "job", "id"),
    Index("ix_history_job_layer_version", "job", "layer", "version"),
    comment="Every write to a job, for ever. Append-only.",
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("hash", Text, nullable=False, unique=True, comment="hash of the secret, which is not stored"),
    Column("role", Text, nullable=False),
    Column("layers", ARRAY(Text), nullable=False, comment="the layers that the token may write; * stands for all"),
    moment("created_at"),
    Column("revoked_at", DateTime(timezone=True)),
    one_of("role", ROLES),
    comment="Bearer tokens for the Job Service.",
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("principal", Text, primary_key=True, comment="who sent the request"),
    Column("key", Text, primary_key=True, comment="the Idempotency-Key of the request"),
    Column("fingerprint", Text, nullable=False, comment="hash of the request: another request must not use the key"),
    Column("status", Integer, nullable=False),
    Column("headers", JSONB, nullable=False),
    Column("body", JSONB(none_as_null=True)),
    moment("at"),
    Index("ix_idempotency_at", "at"),
    comment="Answers to writes, so that a repeated request gets the same answer and has no further effect.",
)

running = Table(
    "running",
    metadata,
    Column("job", Text, primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("revision", BigInteger, nullable=False, comment="expected revision that this configuration implements"),
    Column("generation", BigInteger, nullable=False, comment="generation of checkpoints that the tasks use"),
    Column("restarts", Integer, nullable=False),
    Column(
        "stopping",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="true: no task may run, because the job is being deleted or a plan stopped it",
    ),
    Column(
        "started",
        Boolean,
        nullable=False,
        server_default=text("true"),
        comment="false: no commit has asked for tasks yet, so no checkpoint exists and any change is a simple one",
    ),
    Column("commit_number", BigInteger, nullable=False, comment="orders commits, so that readers can ask for deltas"),
    Column("leader_epoch", BigInteger, nullable=False, comment="epoch of the State Syncer that committed"),
    moment("committed_at"),
    Column(
        "newest_generation",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="highest generation that a plan took, used or not; 0: none besides the column generation",
    ),
    Column("rescale_seconds", JSONB(none_as_null=True), comment="duration of each step of the last rescale"),
    Column(
        "rollout",
        JSONB(none_as_null=True),
        comment="which tasks do not run config yet, and what they run (penstock.tasks.rollout.RunningRollout)",
    ),
    digests(),
    Column("asks_for_tasks", Boolean, Computed(ASKS_FOR_TASKS, persisted=True), nullable=False),
    CheckConstraint("jsonb_typeof(digests) = 'object'", name="digests_by_name"),
    CheckConstraint("generation >= 1", name="generation_positive"),
    Index("ix_running_commit_number", "commit_number"),
    Index("ix_running_rescaled", "job", postgresql_where=text("generation > 1 OR newest_generation > 1")),
    comment="What each job must run now.",
)

forgotten = Table(
    "forgotten",
    metadata,
    Column("job", Text, primary_key=True),
    Column("commit_number", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False, comment="the last that the job took: a new job goes on above it"),
    moment("at"),
    Index("ix_forgotten_commit_number", "commit_number"),
    comment="Jobs that were deleted, so that a delta can say that they are gone.",
)

sync_state = Table(
    "sync_state",
    metadata,
    Column("job", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("detail", Text, nullable=False, server_default="", comment="why the job is in this state, for people"),
    Column("revision", BigInteger, nullable=False, comment="expected revision that the state is about"),
    Column(
        "change_kind",
        Text,
        nullable=False,
        server_default="none",
        comment="what the last change cost (penstock.config.declare.ChangeKind)",
    ),
    Column(
        "changed_fields",
        ARRAY(Text),
        comment="NULL: nobody has compared the configuration at changed_from with the one at revision yet",
    ),
    Column("changed_from", BigInteger, comment="revision that ran before; NULL: the running one"),
    Column(
        "plan", JSONB(none_as_null=True), comment="recorded intent of a rescale or rollout; NULL: none is under way"
    ),
    Column("step", Integer, comment="index of the step that the plan is in"),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("next_attempt_at", DateTime(timezone=True), comment="the job backs off until then"),
    moment("updated_at"),
    Column(
        "rejected",
        JSONB(none_as_null=True),
        comment="package that a rollout was halted with (penstock.tasks.rollout.Rejected), until it is released",
    ),
    one_of("state", SYNC_STATES),
    one_of("change_kind", CHANGE_KINDS),
    one_of("plan", PLAN_KINDS, expression="plan->>'kind'"),
    CheckConstraint("failures >= 0", name="failures_not_negative"),
    Index("ix_sync_state_plan", "job", postgresql_where=text("plan IS NOT NULL")),
    Index("ix_sync_state_rejected", "job", postgresql_where=text("rejected IS NOT NULL")),
    # A release changes all rows. Half-full pages let rows change in place, without a write to their index.
    postgresql_with={"fillfactor": 50},
    comment="How far the State Syncer is with each job. No row: the job is pending.",
)

savepoints = Table(
    "savepoints",
    metadata,
    Column("number", BigInteger, Identity(always=True), primary_key=True),
    Column("job", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("state", Text, nullable=False, server_default="asked"),
    Column("detail", Text, nullable=False, server_default="", comment="why it failed or cannot go on, for people"),
    Column("generation", BigInteger, comment="what is copied; NULL until a container is asked"),
    Column("revision", BigInteger),
    Column("config", JSONB(none_as_null=True)),
    Column("container", Text, comment="container that is asked; recorded before it is asked"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("tasks", JSONB(none_as_null=True), comment="its tasks (penstock.tasks.savepoint.SavedTask), once ready"),
    Column("bytes", BigInteger, comment="its size, once ready"),
    Column("author", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    moment("created_at"),
    Column("finished_at", DateTime(timezone=True)),
    one_of("state", SAVEPOINT_STATES),
    Index("uq_savepoints_job_name", "job", "name", unique=True),
    Index("ix_savepoints_open", "number", postgresql_where=text("state IN ('asked','deleting')")),
    comment="Savepoints: asked for, ready, failed or being deleted. A savepoint outlives its job.",
)

restores = Table(
    "restores",
    metadata,
    Column("job", Text, ForeignKey("jobs.name", ondelete="CASCADE"), primary_key=True),
    Column("number", BigInteger, Identity(always=True), nullable=False, comment="tells two requests of a job apart"),
    Column("savepoint", BigInteger, nullable=False, comment="number of the savepoint"),
    Column("savepoint_job", Text, nullable=False, comment="job that the savepoint was taken of"),
    Column("savepoint_name", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("config", JSONB, nullable=False),
    moment("created_at"),
    Index("ix_restores_savepoint", "savepoint"),
    comment="Restores that are asked for and not done yet, at most one for each job.",
)

generations = Table(
    "generations",
    metadata,
    Column("job", Text, primary_key=True),
    Column("generation", BigInteger, primary_key=True, autoincrement=False),
    Column(
        "attempted",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="true: a plan took the generation and no commit ever named it",
    ),
    Column("unused_since", DateTime(timezone=True), comment="NULL: the job runs it, or a plan writes it"),
    Column("container", Text, comment="container that is asked to delete its files"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("detail", Text, nullable=False, server_default="", comment="why the files cannot be deleted yet"),
    Column("next_attempt_at", DateTime(timezone=True), comment="when another container may be asked"),
    Column("collected_at", DateTime(timezone=True), comment="when the files were deleted"),
    comment="Generations of checkpoints of jobs that have had several, or are forgotten, until their files are "
    "deleted. The newest row of a job stays: numbers up to it are known.",
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("job", Text, nullable=False),
    moment("at"),
    Column("symptom", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("inputs", JSONB, nullable=False, comment="everything that the decision was made from"),
    Column("change", JSONB(none_as_null=True), comment="merge patch of the layer scaler; NULL: nothing is written"),
    Column("outcome", Text, nullable=False, comment="pending, or what came of the decision"),
    Column("leader_epoch", BigInteger, nullable=False),
    Index("ix_decisions_job_id", "job", "id"),
    comment="What the Auto Scaler decided about each job.",
)

alerts = Table(
    "alerts",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("kind", Text, nullable=False, comment="open list: each service names its own kinds"),
    Column("subject", Text, nullable=False, comment="job, container or selector that the alert is about"),
    Column("message", Text, nullable=False),
    Column("details", JSONB, nullable=False, server_default="{}"),
    Column("times", Integer, nullable=False, server_default="1", comment="how often it was raised while open"),
    moment("raised_at"),
    moment("last_at"),
    Column("cleared_at", DateTime(timezone=True), comment="NULL: the alert is open"),
    Index("uq_alerts_open", "kind", "subject", unique=True, postgresql_where=text("cleared_at IS NULL")),
    comment="Alerts. One open row for each kind and subject: raising it again only counts.",
)
