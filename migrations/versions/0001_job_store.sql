-- The job store. The README of `libs/penstock/store` says who writes and who reads each table. There is no release yet,
-- so this file is still edited in place.

CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value BIGINT NOT NULL CHECK (value >= 0)
);
COMMENT ON TABLE counters IS 'One row for each counter. Taking a number locks the row until commit, so numbers become visible in order.';
COMMENT ON COLUMN counters.value IS 'the number that was handed out last';

CREATE TABLE cluster (
    key TEXT PRIMARY KEY,
    value JSONB NOT NULL
);
COMMENT ON TABLE cluster IS 'Facts that every process of the cell must agree on, such as shard_count (penstock.store.cluster).';

CREATE TABLE layers (
    name TEXT PRIMARY KEY,
    rank INTEGER NOT NULL UNIQUE,
    default_expiry_seconds INTEGER CHECK (default_expiry_seconds > 0),
    documentation TEXT DEFAULT '' NOT NULL
);
COMMENT ON TABLE layers IS 'The layers that a configuration can have. An administrator can add one.';
COMMENT ON COLUMN layers.rank IS 'a layer of a higher rank overrides lower ones';
COMMENT ON COLUMN layers.default_expiry_seconds IS 'when a write expires by default; NULL: never';

CREATE TABLE jobs (
    name TEXT PRIMARY KEY,
    revision BIGINT NOT NULL,
    restarts INTEGER DEFAULT 0 NOT NULL CHECK (restarts >= 0),
    deleting BOOLEAN DEFAULT false NOT NULL,
    owner TEXT DEFAULT '' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL
);
CREATE INDEX ix_jobs_owner ON jobs (owner);
CREATE INDEX ix_jobs_revision ON jobs (revision);
COMMENT ON TABLE jobs IS 'The jobs that exist, including those that are being deleted.';
COMMENT ON COLUMN jobs.revision IS 'revision of the newest write to any layer of the job';
COMMENT ON COLUMN jobs.restarts IS 'how often a restart was asked for';
COMMENT ON COLUMN jobs.deleting IS 'true: the State Syncer stops the tasks and then forgets the job';

CREATE TABLE expected_layers (
    job TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE,
    layer TEXT NOT NULL REFERENCES layers,
    config JSONB,
    version BIGINT NOT NULL CHECK (version >= 1),
    revision BIGINT NOT NULL,
    author TEXT NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    written_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (job, layer)
);
CREATE INDEX ix_expected_layers_expires_at ON expected_layers (expires_at) WHERE expires_at IS NOT NULL;
COMMENT ON TABLE expected_layers IS 'What each layer of each job sets.';
COMMENT ON COLUMN expected_layers.config IS 'NULL: the layer was dropped; its version goes on growing';
COMMENT ON COLUMN expected_layers.version IS 'grows by one with each write; used for compare-and-swap';
COMMENT ON COLUMN expected_layers.expires_at IS 'when the layer is dropped; NULL: never';

CREATE TABLE expected_configs (
    job TEXT PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    config JSONB NOT NULL,
    revision BIGINT NOT NULL,
    basis TEXT NOT NULL,
    digests JSONB DEFAULT '{}' NOT NULL CHECK (jsonb_typeof(digests) = 'object'),
    asks_for_tasks BOOLEAN GENERATED ALWAYS AS (coalesce(config->>'desired_state', '') = 'running') STORED NOT NULL,
    priority INTEGER GENERATED ALWAYS AS (coalesce((config->>'priority')::integer, 0)) STORED NOT NULL
);
COMMENT ON TABLE expected_configs IS 'The complete, valid configuration that the layers of a job merge to. A row that is older than a layer of the job, or on another basis, is stale: it must be merged again.';
COMMENT ON COLUMN expected_configs.revision IS 'revision of the newest layer that was merged';
COMMENT ON COLUMN expected_configs.basis IS 'what else the merge depends on (penstock.config.basis)';
COMMENT ON COLUMN expected_configs.digests IS 'digest of config by change kind (penstock.tasks.digests); {}: not computed';

CREATE TABLE history (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job TEXT NOT NULL,
    layer TEXT,
    version BIGINT,
    revision BIGINT NOT NULL,
    action TEXT NOT NULL CHECK (action IN (
        'create','put','patch','drop','expire','revert','delete','forget','restart','release','restore')),
    author TEXT NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    "old" JSONB,
    "new" JSONB,
    expires_at TIMESTAMP WITH TIME ZONE
);
CREATE INDEX ix_history_job_id ON history (job, id);
CREATE INDEX ix_history_job_layer_version ON history (job, layer, version);
COMMENT ON TABLE history IS 'Every write to a job, for ever. Append-only.';
COMMENT ON COLUMN history.layer IS 'NULL: the write changed no layer';
COMMENT ON COLUMN history.version IS 'version of the layer after the write';
COMMENT ON COLUMN history."old" IS 'the layer before the write';
COMMENT ON COLUMN history."new" IS 'the layer after the write';

CREATE TABLE tokens (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    hash TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('reader','provisioner','scaler','oncall','admin')),
    layers TEXT[] NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    revoked_at TIMESTAMP WITH TIME ZONE
);
COMMENT ON TABLE tokens IS 'Bearer tokens for the Job Service.';
COMMENT ON COLUMN tokens.hash IS 'hash of the secret, which is not stored';
COMMENT ON COLUMN tokens.layers IS 'the layers that the token may write; * stands for all';

CREATE TABLE idempotency (
    principal TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    status INTEGER NOT NULL,
    headers JSONB NOT NULL,
    body JSONB,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (principal, key)
);
CREATE INDEX ix_idempotency_at ON idempotency (at);
COMMENT ON TABLE idempotency IS 'Answers to writes, so that a repeated request gets the same answer and has no further effect.';
COMMENT ON COLUMN idempotency.principal IS 'who sent the request';
COMMENT ON COLUMN idempotency.key IS 'the Idempotency-Key of the request';
COMMENT ON COLUMN idempotency.fingerprint IS 'hash of the request: another request must not use the key';

CREATE TABLE running (
    job TEXT PRIMARY KEY,
    config JSONB NOT NULL,
    revision BIGINT NOT NULL,
    generation BIGINT NOT NULL CHECK (generation >= 1),
    restarts INTEGER NOT NULL,
    stopping BOOLEAN DEFAULT false NOT NULL,
    started BOOLEAN DEFAULT true NOT NULL,
    commit_number BIGINT NOT NULL,
    leader_epoch BIGINT NOT NULL,
    committed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    newest_generation BIGINT DEFAULT 0 NOT NULL,
    rescale_seconds JSONB,
    rollout JSONB,
    digests JSONB DEFAULT '{}' NOT NULL CHECK (jsonb_typeof(digests) = 'object'),
    asks_for_tasks BOOLEAN GENERATED ALWAYS AS (coalesce(config->>'desired_state', '') = 'running') STORED NOT NULL
);
CREATE INDEX ix_running_commit_number ON running (commit_number);
CREATE INDEX ix_running_stopping ON running (job) WHERE stopping;
CREATE INDEX ix_running_rescaled ON running (job) WHERE generation > 1 OR newest_generation > 1;
COMMENT ON TABLE running IS 'What each job must run now.';
COMMENT ON COLUMN running.revision IS 'expected revision that this configuration implements';
COMMENT ON COLUMN running.generation IS 'generation of checkpoints that the tasks use';
COMMENT ON COLUMN running.stopping IS 'true: no task may run, because the job is being deleted or a plan stopped it';
COMMENT ON COLUMN running.started IS 'false: no commit has asked for tasks yet, so no checkpoint exists and any change is a simple one';
COMMENT ON COLUMN running.commit_number IS 'orders commits, so that readers can ask for deltas';
COMMENT ON COLUMN running.leader_epoch IS 'epoch of the State Syncer that committed';
COMMENT ON COLUMN running.newest_generation IS 'highest generation that a plan took, used or not; 0: none besides the column generation';
COMMENT ON COLUMN running.rescale_seconds IS 'duration of each step of the last rescale';
COMMENT ON COLUMN running.rollout IS 'which tasks do not run config yet, and what they run (penstock.tasks.rollout.RunningRollout)';
COMMENT ON COLUMN running.digests IS 'digest of config by change kind (penstock.tasks.digests); {}: not computed';

CREATE TABLE forgotten (
    job TEXT PRIMARY KEY,
    commit_number BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL
);
CREATE INDEX ix_forgotten_commit_number ON forgotten (commit_number);
COMMENT ON TABLE forgotten IS 'Jobs that were deleted, so that a delta can say that they are gone.';
COMMENT ON COLUMN forgotten.generation IS 'the last that the job took: a new job goes on above it';

-- A release changes all rows. Half-full pages let rows change in place, without a write to their index.
CREATE TABLE sync_state (
    job TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN (
        'pending','synced','waiting','queued','rescaling','rolling','failed','quarantined','deleting')),
    detail TEXT DEFAULT '' NOT NULL,
    revision BIGINT NOT NULL,
    change_kind TEXT DEFAULT 'none' NOT NULL CHECK (change_kind IN ('none','live','restart','rescale','forbidden')),
    changed_fields TEXT[],
    changed_from BIGINT,
    plan JSONB CHECK (plan->>'kind' IN ('rescale','rollout')),
    step INTEGER,
    failures INTEGER DEFAULT 0 NOT NULL CHECK (failures >= 0),
    next_attempt_at TIMESTAMP WITH TIME ZONE,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    rejected JSONB
) WITH (fillfactor = 50);
CREATE INDEX ix_sync_state_plan ON sync_state (job) WHERE plan IS NOT NULL;
CREATE INDEX ix_sync_state_rejected ON sync_state (job) WHERE rejected IS NOT NULL;
COMMENT ON TABLE sync_state IS 'How far the State Syncer is with each job. No row: the job is pending.';
COMMENT ON COLUMN sync_state.detail IS 'why the job is in this state, for people';
COMMENT ON COLUMN sync_state.revision IS 'expected revision that the state is about; a job that is synced at its newest revision runs it';
COMMENT ON COLUMN sync_state.change_kind IS 'what the last change cost (penstock.config.declare.ChangeKind)';
COMMENT ON COLUMN sync_state.changed_fields IS 'NULL: nobody has compared the configuration at changed_from with the one at revision yet';
COMMENT ON COLUMN sync_state.changed_from IS 'revision that ran before; NULL: the running one';
COMMENT ON COLUMN sync_state.plan IS 'recorded intent of a rescale or rollout; NULL: none is under way';
COMMENT ON COLUMN sync_state.step IS 'index of the step that the plan is in';
COMMENT ON COLUMN sync_state.next_attempt_at IS 'the job backs off until then';
COMMENT ON COLUMN sync_state.rejected IS 'package that a rollout was halted with (penstock.tasks.rollout.Rejected), until it is released';

CREATE TABLE savepoints (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT DEFAULT 'asked' NOT NULL CHECK (state IN ('asked','ready','failed','deleting')),
    detail TEXT DEFAULT '' NOT NULL,
    generation BIGINT,
    revision BIGINT,
    config JSONB,
    container TEXT,
    attempts INTEGER DEFAULT 0 NOT NULL,
    tasks JSONB,
    bytes BIGINT,
    author TEXT NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE
);
CREATE INDEX ix_savepoints_open ON savepoints (number) WHERE state IN ('asked','deleting');
CREATE UNIQUE INDEX uq_savepoints_job_name ON savepoints (job, name);
COMMENT ON TABLE savepoints IS 'Savepoints: asked for, ready, failed or being deleted. A savepoint outlives its job.';
COMMENT ON COLUMN savepoints.detail IS 'why it failed or cannot go on, for people';
COMMENT ON COLUMN savepoints.generation IS 'what is copied; NULL until a container is asked';
COMMENT ON COLUMN savepoints.container IS 'container that is asked; recorded before it is asked';
COMMENT ON COLUMN savepoints.tasks IS 'its tasks (penstock.tasks.savepoint.SavedTask), once ready';
COMMENT ON COLUMN savepoints.bytes IS 'its size, once ready';

CREATE TABLE restores (
    job TEXT PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    savepoint BIGINT NOT NULL,
    savepoint_job TEXT NOT NULL,
    savepoint_name TEXT NOT NULL,
    generation BIGINT NOT NULL,
    config JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL
);
CREATE INDEX ix_restores_savepoint ON restores (savepoint);
COMMENT ON TABLE restores IS 'Restores that are asked for and not done yet, at most one for each job.';
COMMENT ON COLUMN restores.number IS 'tells two requests of a job apart';
COMMENT ON COLUMN restores.savepoint IS 'number of the savepoint';
COMMENT ON COLUMN restores.savepoint_job IS 'job that the savepoint was taken of';

CREATE TABLE generations (
    job TEXT NOT NULL,
    generation BIGINT NOT NULL,
    attempted BOOLEAN DEFAULT false NOT NULL,
    unused_since TIMESTAMP WITH TIME ZONE,
    container TEXT,
    attempts INTEGER DEFAULT 0 NOT NULL,
    detail TEXT DEFAULT '' NOT NULL,
    next_attempt_at TIMESTAMP WITH TIME ZONE,
    collected_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (job, generation)
);
COMMENT ON TABLE generations IS 'Generations of checkpoints of jobs that have had several, or are forgotten, until their files are deleted. The newest row of a job stays: numbers up to it are known.';
COMMENT ON COLUMN generations.attempted IS 'true: a plan took the generation and no commit ever named it';
COMMENT ON COLUMN generations.unused_since IS 'NULL: the job runs it, or a plan writes it';
COMMENT ON COLUMN generations.container IS 'container that is asked to delete its files';
COMMENT ON COLUMN generations.detail IS 'why the files cannot be deleted yet';
COMMENT ON COLUMN generations.next_attempt_at IS 'when another container may be asked';
COMMENT ON COLUMN generations.collected_at IS 'when the files were deleted';

CREATE TABLE decisions (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job TEXT NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    symptom TEXT NOT NULL,
    action TEXT NOT NULL,
    inputs JSONB NOT NULL,
    change JSONB,
    outcome TEXT NOT NULL,
    leader_epoch BIGINT NOT NULL
);
CREATE INDEX ix_decisions_job_id ON decisions (job, id);
COMMENT ON TABLE decisions IS 'What the Auto Scaler decided about each job.';
COMMENT ON COLUMN decisions.inputs IS 'everything that the decision was made from';
COMMENT ON COLUMN decisions.change IS 'merge patch of the layer scaler; NULL: nothing is written';
COMMENT ON COLUMN decisions.outcome IS 'pending, or what came of the decision';

CREATE TABLE alerts (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    message TEXT NOT NULL,
    details JSONB DEFAULT '{}' NOT NULL,
    times INTEGER DEFAULT 1 NOT NULL,
    raised_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    last_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    cleared_at TIMESTAMP WITH TIME ZONE
);
CREATE UNIQUE INDEX uq_alerts_open ON alerts (kind, subject) WHERE cleared_at IS NULL;
COMMENT ON TABLE alerts IS 'Alerts. One open row for each kind and subject: raising it again only counts.';
COMMENT ON COLUMN alerts.kind IS 'open list: each service names its own kinds';
COMMENT ON COLUMN alerts.subject IS 'job, container or selector that the alert is about';
COMMENT ON COLUMN alerts.times IS 'how often it was raised while open';
COMMENT ON COLUMN alerts.cleared_at IS 'NULL: the alert is open';

CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    url TEXT DEFAULT '' NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL
);
COMMENT ON TABLE leases IS 'Who leads each loop, and until when.';
COMMENT ON COLUMN leases.name IS 'the loop or service';
COMMENT ON COLUMN leases.epoch IS 'grows with every new holder, and fences its writes';
COMMENT ON COLUMN leases.url IS 'where the holder is reached';

CREATE TABLE containers (
    name TEXT PRIMARY KEY,
    incarnation TEXT NOT NULL,
    url TEXT NOT NULL,
    region TEXT NOT NULL,
    cpu_cores DOUBLE PRECISION NOT NULL,
    memory_bytes BIGINT NOT NULL,
    disk_bytes BIGINT NOT NULL,
    further_capacity JSONB DEFAULT '{}' NOT NULL,
    labels JSONB DEFAULT '{}' NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('live','lost')),
    registered_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    heartbeat_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    lease_renewed_at TIMESTAMP WITH TIME ZONE,
    availability TEXT DEFAULT 'open' NOT NULL CHECK (availability IN ('open','cordoned','draining')),
    drain_until TIMESTAMP WITH TIME ZONE,
    availability_reason TEXT,
    availability_by TEXT,
    availability_at TIMESTAMP WITH TIME ZONE,
    placement JSONB,
    CHECK (drain_until IS NULL OR availability = 'draining')
);
COMMENT ON TABLE containers IS 'The containers (Task Managers) that ever registered and were not forgotten.';
COMMENT ON COLUMN containers.incarnation IS 'names one life of the Task Manager process';
COMMENT ON COLUMN containers.further_capacity IS 'amounts of other dimensions by name';
COMMENT ON COLUMN containers.heartbeat_at IS 'for people and for a new leader';
COMMENT ON COLUMN containers.lease_renewed_at IS 'written by the Task Manager while no Shard Manager answers; holds off a fail-over';
COMMENT ON COLUMN containers.availability IS 'whether it takes shards: set by an operator, or by the Shard Manager';
COMMENT ON COLUMN containers.drain_until IS 'limit of a drain; NULL: without a limit';
COMMENT ON COLUMN containers.availability_at IS 'since when it has this availability';
COMMENT ON COLUMN containers.placement IS 'load that the Shard Manager placed here; NULL: unknown';

CREATE TABLE assignment (
    shard INTEGER PRIMARY KEY,
    container TEXT,
    epoch BIGINT NOT NULL,
    moved_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL
);
CREATE INDEX ix_assignment_container ON assignment (container);
COMMENT ON TABLE assignment IS 'Which container owns each shard.';
COMMENT ON COLUMN assignment.container IS 'NULL: nobody owns the shard';
COMMENT ON COLUMN assignment.epoch IS 'from the counter assignment; new at every change of owner';

CREATE TABLE reports (
    container TEXT PRIMARY KEY,
    incarnation TEXT NOT NULL,
    commit_number BIGINT NOT NULL,
    version BIGINT NOT NULL,
    reported_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL
);
COMMENT ON TABLE reports IS 'The newest full report of each container; the table tasks has the tasks of the report.';
COMMENT ON COLUMN reports.commit_number IS 'newest commit that the container knew';
COMMENT ON COLUMN reports.version IS 'highest assignment epoch that the container knew';

CREATE TABLE tasks (
    job TEXT NOT NULL,
    index INTEGER NOT NULL,
    container TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('starting','running','stopping','crashed','held')),
    revision BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    restarts INTEGER NOT NULL,
    epoch BIGINT NOT NULL,
    crashes INTEGER DEFAULT 0 NOT NULL,
    error TEXT,
    out_of_memory BOOLEAN DEFAULT false NOT NULL,
    progress JSONB,
    reported_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (job, index, container)
);
CREATE INDEX ix_tasks_container ON tasks (container);
COMMENT ON TABLE tasks IS 'The tasks of each container, as its newest report tells them.';
COMMENT ON COLUMN tasks.epoch IS 'assignment epoch of its shard when the task was started';

CREATE TABLE task_loads (
    job TEXT NOT NULL,
    index INTEGER NOT NULL,
    generation BIGINT NOT NULL,
    load JSONB NOT NULL,
    measured_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (job, index)
);
COMMENT ON TABLE task_loads IS 'What each task uses. A row outlives the report: a task that moves is placed by what it used before.';
COMMENT ON COLUMN task_loads.generation IS 'generation that was measured';
COMMENT ON COLUMN task_loads.load IS 'amounts by dimension; a dimension that is missing is unknown';

CREATE TABLE task_metrics (
    job TEXT NOT NULL,
    index INTEGER NOT NULL,
    minute TIMESTAMP WITH TIME ZONE NOT NULL,
    input_rows_per_second DOUBLE PRECISION,
    processed_rows_per_second DOUBLE PRECISION,
    input_bytes_per_second DOUBLE PRECISION,
    backlog_records BIGINT,
    backlog_bytes BIGINT,
    lag_seconds DOUBLE PRECISION,
    state_rows BIGINT,
    state_memory_bytes BIGINT,
    batch_seconds DOUBLE PRECISION,
    out_of_memory BOOLEAN DEFAULT false NOT NULL,
    PRIMARY KEY (job, index, minute)
);
CREATE INDEX ix_task_metrics_minute ON task_metrics (minute);
COMMENT ON TABLE task_metrics IS 'One sample for each task and minute. NULL is unknown, never zero.';
COMMENT ON COLUMN task_metrics.processed_rows_per_second IS 'rate at which it works while it works';


-- The rows that every cell begins with.

INSERT INTO counters (name, value) VALUES ('revision', 0), ('running_commit', 0), ('assignment', 0);

INSERT INTO cluster (key, value) VALUES ('shard_count', '1024');

INSERT INTO layers (name, rank, default_expiry_seconds, documentation) VALUES
    ('base', 0, NULL, 'what the job is: set when it is created'),
    ('provisioner', 100, NULL, 'what the provisioner compiled a pipeline to'),
    ('scaler', 200, NULL, 'what the Auto Scaler decided'),
    ('oncall', 300, 86400, 'overrides by people: they expire unless asked otherwise'),
    ('rollback', 1000, NULL, 'what the State Syncer went back to after a package was not healthy');


-- Invariants. A violation has SQLSTATE 23514, as that of a CHECK has.

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON history
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION refuse_going_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%.% only grows', TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER value_only_grows BEFORE UPDATE ON counters
    FOR EACH ROW WHEN (new.value < old.value) EXECUTE FUNCTION refuse_going_back('value');
CREATE TRIGGER revision_only_grows BEFORE UPDATE ON jobs
    FOR EACH ROW WHEN (new.revision < old.revision) EXECUTE FUNCTION refuse_going_back('revision');
CREATE TRIGGER version_only_grows BEFORE UPDATE ON expected_layers
    FOR EACH ROW WHEN (new.version <= old.version) EXECUTE FUNCTION refuse_going_back('version');
CREATE TRIGGER generation_only_grows BEFORE UPDATE ON running
    FOR EACH ROW WHEN (new.generation < old.generation) EXECUTE FUNCTION refuse_going_back('generation');
CREATE TRIGGER newest_generation_only_grows BEFORE UPDATE ON running
    FOR EACH ROW WHEN (new.newest_generation < old.newest_generation)
    EXECUTE FUNCTION refuse_going_back('newest_generation');
CREATE TRIGGER commit_number_only_grows BEFORE UPDATE ON running
    FOR EACH ROW WHEN (new.commit_number < old.commit_number) EXECUTE FUNCTION refuse_going_back('commit_number');
CREATE TRIGGER epoch_only_grows BEFORE UPDATE ON leases
    FOR EACH ROW WHEN (new.epoch < old.epoch) EXECUTE FUNCTION refuse_going_back('epoch');
CREATE TRIGGER epoch_only_grows BEFORE UPDATE ON assignment
    FOR EACH ROW WHEN (new.epoch < old.epoch) EXECUTE FUNCTION refuse_going_back('epoch');

-- A job that is forgotten and created again must not use a version number twice. The history may already have the row
-- of the write that is checked: it has the same revision.
CREATE FUNCTION refuse_used_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM history WHERE job = new.job AND layer = new.layer AND version >= new.version AND revision <> new.revision
    ) THEN
        RAISE EXCEPTION 'version % of layer % of job % was used before', new.version, new.layer, new.job
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN new;
END $$;

CREATE TRIGGER version_not_used BEFORE INSERT ON expected_layers
    FOR EACH ROW EXECUTE FUNCTION refuse_used_version();
