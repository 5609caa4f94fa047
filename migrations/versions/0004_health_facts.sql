-- What the health of many jobs is told from, without reading their configurations.

-- Names all that restarts the tasks of a job when it changes. A write that only a running task takes over leaves it.
CREATE FUNCTION task_run_of(digests JSONB, generation BIGINT, restarts INTEGER) RETURNS TEXT LANGUAGE sql IMMUTABLE
    RETURN md5((digests->>'restart') || '/' || (digests->>'rescale') || '/' || (digests->>'forbidden')
        || '/' || generation::text || '/' || restarts::text);
COMMENT ON FUNCTION task_run_of IS 'names all that restarts the tasks of a job when it changes; NULL where a digest is missing';

-- Which of many jobs are over their SLO is asked four times a minute.
ALTER TABLE running
    ADD COLUMN max_lag_seconds DOUBLE PRECISION
        GENERATED ALWAYS AS ((config->'slo'->>'max_lag_seconds')::double precision) STORED,
    ADD COLUMN task_run TEXT GENERATED ALWAYS AS (task_run_of(digests, generation, restarts)) STORED;
COMMENT ON COLUMN running.max_lag_seconds IS 'slo.max_lag_seconds of config; NULL: not set, so the default of the code';
COMMENT ON COLUMN running.task_run IS 'names all that restarts the tasks when it changes; NULL: unknown, without digests';
CREATE INDEX ix_running_max_lag_seconds ON running (max_lag_seconds);

-- Crashes are a series only of tasks that were not restarted for a change in between.
ALTER TABLE task_crashes ADD COLUMN task_run TEXT;
COMMENT ON COLUMN task_crashes.task_run IS 'running.task_run of what crashed last; NULL: unknown';
