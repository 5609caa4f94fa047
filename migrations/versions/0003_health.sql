-- A report says how often a task crashed in a row. A task that runs for a while after each crash always reports one, and
-- a task that moves begins anew. These rows outlive both.

CREATE TABLE task_crashes (
    job TEXT NOT NULL,
    index INTEGER NOT NULL,
    crashed_at TIMESTAMP WITH TIME ZONE[] NOT NULL CHECK (cardinality(crashed_at) > 0),
    newest_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    error TEXT NOT NULL,
    PRIMARY KEY (job, index)
);
CREATE INDEX ix_task_crashes_newest_at ON task_crashes (newest_at);
COMMENT ON TABLE task_crashes IS 'The newest crashes of each task, wherever it ran. Deleted after a day without a crash.';
COMMENT ON COLUMN task_crashes.crashed_at IS 'when they were reported: a few, the newest last';
COMMENT ON COLUMN task_crashes.newest_at IS 'the newest of them';
COMMENT ON COLUMN task_crashes.revision IS 'revision that the newest crash was reported with';
COMMENT ON COLUMN task_crashes.error IS 'of the newest crash';
