-- The job store, first form. `libs/penstock/store/tables.py` says who writes what.

CREATE TABLE counters (
    name TEXT NOT NULL,
    value BIGINT NOT NULL,
    CONSTRAINT pk_counters PRIMARY KEY (name),
    CONSTRAINT ck_counters_value_not_negative CHECK (value >= 0)
);


CREATE TABLE cluster (
    key TEXT NOT NULL,
    value JSONB NOT NULL,
    CONSTRAINT pk_cluster PRIMARY KEY (key)
);


CREATE TABLE layers (
    name TEXT NOT NULL,
    rank INTEGER NOT NULL,
    default_expiry_seconds INTEGER,
    documentation TEXT DEFAULT '' NOT NULL,
    CONSTRAINT pk_layers PRIMARY KEY (name),
    CONSTRAINT uq_layers_rank UNIQUE (rank)
);


CREATE TABLE jobs (
    name TEXT NOT NULL,
    revision BIGINT NOT NULL,
    restarts INTEGER DEFAULT '0' NOT NULL,
    deleting BOOLEAN DEFAULT false NOT NULL,
    owner TEXT DEFAULT '' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_jobs PRIMARY KEY (name),
    CONSTRAINT ck_jobs_restarts_not_negative CHECK (restarts >= 0)
);

CREATE INDEX ix_jobs_owner ON jobs (owner);
CREATE INDEX ix_jobs_revision ON jobs (revision);

CREATE TABLE expected_layers (
    job TEXT NOT NULL,
    layer TEXT NOT NULL,
    config JSONB,
    version BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    author TEXT NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    written_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_expected_layers PRIMARY KEY (job, layer),
    CONSTRAINT ck_expected_layers_version_positive CHECK (version >= 1),
    CONSTRAINT fk_expected_layers_job FOREIGN KEY(job) REFERENCES jobs (name) ON DELETE CASCADE,
    CONSTRAINT fk_expected_layers_layer FOREIGN KEY(layer) REFERENCES layers (name)
);

CREATE INDEX ix_expected_layers_expires_at ON expected_layers (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE history (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    job TEXT NOT NULL,
    layer TEXT,
    version BIGINT,
    revision BIGINT NOT NULL,
    action TEXT NOT NULL,
    author TEXT NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    "old" JSONB,
    "new" JSONB,
    expires_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_history PRIMARY KEY (id)
);

CREATE INDEX ix_history_job_id ON history (job, id);
CREATE INDEX ix_history_job_layer_version ON history (job, layer, version);

CREATE TABLE tokens (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    role TEXT NOT NULL,
    layers TEXT[] NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    revoked_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_tokens PRIMARY KEY (id),
    CONSTRAINT ck_tokens_role_known CHECK (role IN ('reader','provisioner','scaler','oncall','admin')),
    CONSTRAINT uq_tokens_name UNIQUE (name),
    CONSTRAINT uq_tokens_hash UNIQUE (hash)
);


CREATE TABLE idempotency (
    principal TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    status INTEGER NOT NULL,
    headers JSONB NOT NULL,
    body JSONB,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_idempotency PRIMARY KEY (principal, key)
);

CREATE INDEX ix_idempotency_at ON idempotency (at);

CREATE TABLE running (
    job TEXT NOT NULL,
    config JSONB NOT NULL,
    revision BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    restarts INTEGER NOT NULL,
    stopping BOOLEAN DEFAULT false NOT NULL,
    started BOOLEAN DEFAULT true NOT NULL,
    commit_number BIGINT NOT NULL,
    leader_epoch BIGINT NOT NULL,
    committed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_running PRIMARY KEY (job),
    CONSTRAINT ck_running_generation_positive CHECK (generation >= 1)
);

CREATE INDEX ix_running_commit_number ON running (commit_number);

CREATE TABLE forgotten (
    job TEXT NOT NULL,
    commit_number BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_forgotten PRIMARY KEY (job)
);

CREATE INDEX ix_forgotten_commit_number ON forgotten (commit_number);

CREATE TABLE sync_state (
    job TEXT NOT NULL,
    state TEXT NOT NULL,
    detail TEXT DEFAULT '' NOT NULL,
    revision BIGINT NOT NULL,
    change_kind TEXT DEFAULT 'none' NOT NULL,
    changed_fields TEXT[] DEFAULT '{}' NOT NULL,
    plan JSONB,
    step INTEGER,
    failures INTEGER DEFAULT '0' NOT NULL,
    next_attempt_at TIMESTAMP WITH TIME ZONE,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_sync_state PRIMARY KEY (job),
    CONSTRAINT ck_sync_state_failures_not_negative CHECK (failures >= 0)
);


CREATE TABLE leases (
    name TEXT NOT NULL,
    holder TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    url TEXT DEFAULT '' NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_leases PRIMARY KEY (name)
);


CREATE TABLE containers (
    name TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    url TEXT NOT NULL,
    region TEXT NOT NULL,
    cpu_cores DOUBLE PRECISION NOT NULL,
    memory_bytes BIGINT NOT NULL,
    disk_bytes BIGINT NOT NULL,
    state TEXT NOT NULL,
    registered_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    heartbeat_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    lease_renewed_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_containers PRIMARY KEY (name),
    CONSTRAINT ck_containers_state_known CHECK (state IN ('live','lost'))
);


CREATE TABLE assignment (
    shard SERIAL NOT NULL,
    container TEXT,
    epoch BIGINT NOT NULL,
    moved_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_assignment PRIMARY KEY (shard)
);

CREATE INDEX ix_assignment_container ON assignment (container);

CREATE TABLE reports (
    container TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    commit_number BIGINT NOT NULL,
    version BIGINT NOT NULL,
    reported_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_reports PRIMARY KEY (container)
);


CREATE TABLE tasks (
    job TEXT NOT NULL,
    index INTEGER NOT NULL,
    container TEXT NOT NULL,
    state TEXT NOT NULL,
    revision BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    restarts INTEGER NOT NULL,
    epoch BIGINT NOT NULL,
    crashes INTEGER DEFAULT '0' NOT NULL,
    error TEXT,
    out_of_memory BOOLEAN DEFAULT false NOT NULL,
    progress JSONB,
    reported_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_tasks PRIMARY KEY (job, index, container)
);

CREATE INDEX ix_tasks_container ON tasks (container);

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
    CONSTRAINT pk_task_metrics PRIMARY KEY (job, index, minute)
);

CREATE INDEX ix_task_metrics_minute ON task_metrics (minute);

CREATE TABLE decisions (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    job TEXT NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    symptom TEXT NOT NULL,
    action TEXT NOT NULL,
    inputs JSONB NOT NULL,
    change JSONB,
    outcome TEXT NOT NULL,
    leader_epoch BIGINT NOT NULL,
    CONSTRAINT pk_decisions PRIMARY KEY (id)
);

CREATE INDEX ix_decisions_job_id ON decisions (job, id);

CREATE TABLE alerts (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    message TEXT NOT NULL,
    details JSONB DEFAULT '{}' NOT NULL,
    times INTEGER DEFAULT '1' NOT NULL,
    raised_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    last_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    cleared_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_alerts PRIMARY KEY (id)
);

CREATE UNIQUE INDEX uq_alerts_open ON alerts (kind, subject) WHERE cleared_at IS NULL;

-- Rows that every cell begins with.

INSERT INTO counters (name, value) VALUES ('revision', 0), ('running_commit', 0), ('assignment', 0);

INSERT INTO cluster (key, value) VALUES ('shard_count', '1024');

INSERT INTO layers (name, rank, default_expiry_seconds, documentation) VALUES
    ('base', 0, NULL, 'what the job is: set when it is created'),
    ('provisioner', 100, NULL, 'what the provisioner compiled a pipeline to'),
    ('scaler', 200, NULL, 'what the Auto Scaler decided'),
    ('oncall', 300, 86400, 'overrides by people: above all, and expiring unless asked otherwise');


-- Invariants. Violations come as SQLSTATE 23514, like those of any CHECK.

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
CREATE TRIGGER commit_number_only_grows BEFORE UPDATE ON running
    FOR EACH ROW WHEN (new.commit_number < old.commit_number) EXECUTE FUNCTION refuse_going_back('commit_number');
CREATE TRIGGER epoch_only_grows BEFORE UPDATE ON leases
    FOR EACH ROW WHEN (new.epoch < old.epoch) EXECUTE FUNCTION refuse_going_back('epoch');
CREATE TRIGGER epoch_only_grows BEFORE UPDATE ON assignment
    FOR EACH ROW WHEN (new.epoch < old.epoch) EXECUTE FUNCTION refuse_going_back('epoch');

-- A job that was forgotten and made again must not use a version number twice. The row of this very write may be in
-- the history already.
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
