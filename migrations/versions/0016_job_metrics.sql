-- Minutes of jobs are kept for weeks, an hour a row; samples of tasks, from which they are made, for days.

SET LOCAL lock_timeout = '5s';

-- A Task Service of the release before writes samples without these: then they are not known.
ALTER TABLE task_metrics
    ADD COLUMN busy_share DOUBLE PRECISION,
    ADD COLUMN late_rows_per_second DOUBLE PRECISION,
    ADD COLUMN cpu_cores DOUBLE PRECISION,
    ADD COLUMN memory_bytes DOUBLE PRECISION,
    ADD COLUMN running BOOLEAN,
    ADD COLUMN crashes INTEGER,
    ADD COLUMN task_count INTEGER;
COMMENT ON COLUMN task_metrics.busy_share IS 'share of the time in which batches ran';
COMMENT ON COLUMN task_metrics.crashes IS 'in a row, until the task is healthy again';
COMMENT ON COLUMN task_metrics.task_count IS 'how many tasks the job ran by its running configuration';
DO $$
BEGIN
    -- It may still wait to become the oldest part, which has the same columns as the others.
    IF to_regclass('task_metrics_before') IS NOT NULL
            AND NOT EXISTS (SELECT FROM sample_parts WHERE part = 'task_metrics_before') THEN
        ALTER TABLE task_metrics_before
            ADD COLUMN busy_share DOUBLE PRECISION,
            ADD COLUMN late_rows_per_second DOUBLE PRECISION,
            ADD COLUMN cpu_cores DOUBLE PRECISION,
            ADD COLUMN memory_bytes DOUBLE PRECISION,
            ADD COLUMN running BOOLEAN,
            ADD COLUMN crashes INTEGER,
            ADD COLUMN task_count INTEGER;
    END IF;
END
$$;

CREATE TABLE job_metrics (
    job TEXT NOT NULL,
    hour TIMESTAMP WITH TIME ZONE NOT NULL,
    input_rows_per_second REAL[],
    processed_rows_per_second REAL[],
    input_bytes_per_second REAL[],
    busy_share REAL[],
    batch_seconds REAL[],
    backlog_records REAL[],
    backlog_bytes REAL[],
    lag_seconds REAL[],
    state_rows REAL[],
    state_memory_bytes REAL[],
    late_rows_per_second REAL[],
    cpu_cores REAL[],
    memory_bytes REAL[],
    tasks_running REAL[],
    crashes REAL[],
    out_of_memory REAL[],
    PRIMARY KEY (job, hour)
) PARTITION BY RANGE (hour);
COMMENT ON TABLE job_metrics IS 'Measurements of a job in one hour, kept by day (UTC): arrays of 60 minutes. NULL is unknown, never zero; an array that is NULL has no known minute.';

CREATE TABLE rolled (
    the_row BOOLEAN PRIMARY KEY DEFAULT true CHECK (the_row),
    hour TIMESTAMP WITH TIME ZONE NOT NULL,
    job TEXT DEFAULT '' NOT NULL
);
COMMENT ON TABLE rolled IS 'One row: all hours before this one are in job_metrics, and of this hour the jobs up to this one.';
INSERT INTO rolled (hour) SELECT date_trunc('hour', coalesce(min(minute), now()), 'UTC') FROM task_metrics;
DO $$
BEGIN
    -- Rolled once it is the oldest part.
    IF to_regclass('task_metrics_before') IS NOT NULL THEN
        UPDATE rolled SET hour = LEAST(hour, (SELECT date_trunc('hour', min(minute), 'UTC') FROM task_metrics_before));
    END IF;
END
$$;

CREATE FUNCTION add_job_metrics_day(of_hour TIMESTAMPTZ) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    begins TIMESTAMPTZ := date_trunc('day', of_hour, 'UTC');
    part TEXT := 'job_metrics_' || to_char(begins AT TIME ZONE 'UTC', 'YYYYMMDD');
BEGIN
    IF to_regclass(part) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE job_metrics INCLUDING ALL)', part);
    EXECUTE format('COMMENT ON TABLE %I IS %L', part, 'Measurements of jobs of one day (UTC).');
    -- Unlike CREATE TABLE ... PARTITION OF, this does not lock out readers and writers of the table.
    EXECUTE format('ALTER TABLE job_metrics ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part,
        begins, begins + interval '1 day');
END
$$;
COMMENT ON FUNCTION add_job_metrics_day IS 'Adds the part of job_metrics for the day (UTC) of an hour, unless it is there.';

CREATE VIEW job_metrics_parts AS
    SELECT parts.relname::text AS part,
        (regexp_match(pg_get_expr(parts.relpartbound, parts.oid), $r$TO \('([^']+)'\)$r$))[1]::timestamptz AS ends
    FROM pg_inherits JOIN pg_class parts ON parts.oid = inhrelid WHERE inhparent = 'job_metrics'::regclass;
COMMENT ON VIEW job_metrics_parts IS 'The parts of job_metrics.';

CREATE FUNCTION drop_oldest_job_metrics(keep_days INTEGER) RETURNS TEXT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    oldest TEXT;
BEGIN
    IF keep_days IS NULL OR keep_days < 1 THEN
        RAISE EXCEPTION 'keep_days is %, and must be at least 1', keep_days USING ERRCODE = 'check_violation';
    END IF;
    SELECT part INTO oldest FROM job_metrics_parts
    WHERE ends <= clock_timestamp() - make_interval(days => keep_days) ORDER BY ends LIMIT 1;
    IF oldest IS NOT NULL THEN
        EXECUTE format('DROP TABLE %I', oldest);
    END IF;
    RETURN oldest;
END
$$;
COMMENT ON FUNCTION drop_oldest_job_metrics IS 'Drops the oldest part of job_metrics if all of it is older; its name, or NULL.';

REVOKE EXECUTE ON FUNCTION add_job_metrics_day, drop_oldest_job_metrics FROM PUBLIC;
