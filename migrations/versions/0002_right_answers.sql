-- What keeps answers right: which generations, packages, topics and folders are a job's own; jobs that quiesce.

-- `/sync` shows the difference that is still asked for, and nothing of a change that is synced.
-- The column stays until no process of the release before reads it.
COMMENT ON COLUMN sync_state.changed_from IS 'no longer written or read; a later migration drops it';
COMMENT ON COLUMN sync_state.changed_fields IS 'NULL: nobody has compared the running configuration with the one at revision yet';

ALTER TABLE savepoints ADD COLUMN next_attempt_at TIMESTAMP WITH TIME ZONE;
COMMENT ON COLUMN savepoints.next_attempt_at IS 'when another container may be asked; NULL: at once';

-- The generations of a job that was deleted and made again: which are of the present one.

ALTER TABLE running ADD COLUMN first_generation BIGINT DEFAULT 1 NOT NULL CHECK (first_generation >= 1);
COMMENT ON COLUMN running.first_generation IS 'first generation of this job: a deleted job of its name had lower ones; 1 for jobs that are older than this column';

-- What a package that is not healthy may be rolled back to.

CREATE FUNCTION code_of(config JSONB) RETURNS TEXT LANGUAGE sql IMMUTABLE
    RETURN md5(coalesce(config->>'package', '') || '/' || coalesce(config->>'query', ''));
COMMENT ON FUNCTION code_of IS 'names the package and the query of a configuration';

ALTER TABLE running ADD COLUMN code TEXT GENERATED ALWAYS AS (code_of(config)) STORED;
COMMENT ON COLUMN running.code IS 'names the package and the query of config';

CREATE TABLE proven (
    job TEXT NOT NULL,
    code TEXT NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (job, code)
);
COMMENT ON TABLE proven IS 'Packages and queries with which a task of the job has finished a batch with rows. Forgotten with the job.';
COMMENT ON COLUMN proven.code IS 'as running.code';

-- What each job reads and writes: loops of topics and shared folders are refused at the write.

CREATE TABLE flows (
    job TEXT PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    reads TEXT[] NOT NULL,
    writes TEXT,
    folder TEXT,
    may_loop BOOLEAN DEFAULT false NOT NULL
);
CREATE INDEX ix_flows_writes ON flows (writes) WHERE writes IS NOT NULL;
CREATE INDEX ix_flows_folder ON flows (folder) WHERE folder IS NOT NULL;
COMMENT ON TABLE flows IS 'Topics and folder of each job, as its newest write has them.';
COMMENT ON COLUMN flows.reads IS 'topics of its inputs, in order';
COMMENT ON COLUMN flows.writes IS 'topic of its output; NULL: another kind of output';
COMMENT ON COLUMN flows.folder IS 'folder of its files; NULL: another kind of output';
COMMENT ON COLUMN flows.may_loop IS 'the job says that its output may come back to its inputs';

-- A job whose row differs from this is written anew with its next write.
INSERT INTO flows (job, reads, writes)
SELECT job, ARRAY(
        SELECT DISTINCT source->>'topic' FROM jsonb_path_query(config, '$.inputs.*') AS source ORDER BY source->>'topic'),
    config->'output'->>'topic'
FROM expected_configs;

-- Before a rescale stops a job, its tasks finish their batches. A commit of a State Syncer that does not know this column
-- ends what it asks for.
ALTER TABLE running ADD COLUMN quiescing_commit BIGINT;
COMMENT ON COLUMN running.quiescing_commit IS 'tasks take no more rows while this is the row''s commit_number; otherwise it is out of date';
CREATE INDEX ix_running_quiescing ON running (job) WHERE quiescing_commit = commit_number;
