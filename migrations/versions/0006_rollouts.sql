-- New packages go out in waves, and back by a write in a layer of its own. A release before this one does not write
-- `rollout`: it names the revision that it belongs to, and counts for no other.

ALTER TABLE running ADD COLUMN rollout JSONB;

ALTER TABLE sync_state ADD COLUMN rejected JSONB;
CREATE INDEX ix_sync_state_rejected ON sync_state (job) WHERE rejected IS NOT NULL;

-- Above all layers, with room for others below. It is empty, so no merge changes: nobody needs to look at all jobs again because of it.
WITH added AS (
    INSERT INTO layers (name, rank, default_expiry_seconds, documentation)
    SELECT 'rollback', GREATEST(1000, max(rank) + 100), NULL, 'what the State Syncer went back to after a package was not healthy'
    FROM layers
    ON CONFLICT (name) DO NOTHING
    RETURNING name, rank
)
UPDATE cluster SET value = value || jsonb_build_object(added.name, added.rank)
FROM added WHERE cluster.key = 'synced_ranks';
