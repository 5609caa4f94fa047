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
