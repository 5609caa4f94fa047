-- Tasks that are behind read on to a common watermark before a rescale, while they run.

-- A lock that is not had soon is given up: whoever waits for it holds up all who come after.
SET LOCAL lock_timeout = '5s';

-- The commit stands beside the watermark: a State Syncer of the release before changes neither when it writes a row.
ALTER TABLE running
    ADD COLUMN level_commit BIGINT,
    ADD COLUMN level_ms BIGINT CHECK (level_ms >= 0),
    ADD CONSTRAINT ck_running_level CHECK ((level_ms IS NULL) = (level_commit IS NULL));
COMMENT ON COLUMN running.level_commit IS 'level_ms counts while this is the row''s commit_number; otherwise it is out of date';
COMMENT ON COLUMN running.level_ms IS 'tasks that take no more rows first read on to this watermark, in milliseconds since 1970; 0: they only say theirs';
