-- Zero where an older version wrote the row: readers take the greater of it and `generation`.
ALTER TABLE running ADD COLUMN newest_generation BIGINT DEFAULT '0' NOT NULL;
ALTER TABLE running ADD COLUMN rescale_seconds JSONB;
UPDATE running SET newest_generation = generation;

CREATE INDEX ix_sync_state_plan ON sync_state (job) WHERE plan IS NOT NULL;

CREATE TRIGGER newest_generation_only_grows BEFORE UPDATE ON running
    FOR EACH ROW WHEN (new.newest_generation < old.newest_generation)
    EXECUTE FUNCTION refuse_going_back('newest_generation');
