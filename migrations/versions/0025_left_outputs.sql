-- Where jobs that were deleted, or write elsewhere now, have left rows: a job that reads the same may write them again.

SET LOCAL lock_timeout = '5s';

CREATE TABLE left_outputs (
    place TEXT NOT NULL,
    job TEXT NOT NULL,
    reads TEXT[] NOT NULL,
    generation BIGINT NOT NULL,
    left_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    repeated_by TEXT,
    PRIMARY KEY (place, job)
);

COMMENT ON TABLE left_outputs IS 'topics, folders and tables with rows of a job that writes there no more';
COMMENT ON COLUMN left_outputs.reads IS 'topics, patterns and paths that it read rows of, as in flows; of all its lives';
COMMENT ON COLUMN left_outputs.generation IS 'its last generation that wrote there';
COMMENT ON COLUMN left_outputs.repeated_by IS 'the last job that was accepted though it may write the same rows again';
