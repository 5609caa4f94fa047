-- Errors of tasks are counted by class, each in one minute. So is the backlog of the key group that has most.

SET LOCAL lock_timeout = '5s';

CREATE TABLE unsampled_errors (
    job TEXT NOT NULL,
    index INTEGER NOT NULL,
    class TEXT NOT NULL,
    count INTEGER NOT NULL CHECK (count > 0),
    PRIMARY KEY (job, index, class)
);
COMMENT ON TABLE unsampled_errors IS 'How often tasks ended by themselves since the last samples, by class of error.';

-- A Task Service of the release before writes samples without these: then they are not known.
ALTER TABLE task_metrics
    ADD COLUMN errors_out_of_memory INTEGER,
    ADD COLUMN errors_configuration INTEGER,
    ADD COLUMN errors_fenced INTEGER,
    ADD COLUMN errors_host INTEGER,
    ADD COLUMN errors_other INTEGER,
    ADD COLUMN key_group_backlog_records BIGINT;
COMMENT ON COLUMN task_metrics.errors_other IS 'how often it ended by itself since the sample before, like the other errors';
COMMENT ON COLUMN task_metrics.key_group_backlog_records IS 'of its key group that has most';
DO $$
BEGIN
    -- It may still wait to become the oldest part, which has the same columns as the others.
    IF to_regclass('task_metrics_before') IS NOT NULL
            AND NOT EXISTS (SELECT FROM sample_parts WHERE part = 'task_metrics_before') THEN
        ALTER TABLE task_metrics_before
            ADD COLUMN errors_out_of_memory INTEGER,
            ADD COLUMN errors_configuration INTEGER,
            ADD COLUMN errors_fenced INTEGER,
            ADD COLUMN errors_host INTEGER,
            ADD COLUMN errors_other INTEGER,
            ADD COLUMN key_group_backlog_records BIGINT;
    END IF;
END
$$;

ALTER TABLE job_metrics
    ADD COLUMN key_group_backlog_records REAL[],
    ADD COLUMN restarts REAL[],
    ADD COLUMN errors_out_of_memory REAL[],
    ADD COLUMN errors_configuration REAL[],
    ADD COLUMN errors_fenced REAL[],
    ADD COLUMN errors_host REAL[],
    ADD COLUMN errors_other REAL[];
