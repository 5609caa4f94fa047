-- `/sync` shows the difference that is still asked for, and nothing of a change that is synced.
-- The column stays until no process of the release before reads it.
COMMENT ON COLUMN sync_state.changed_from IS 'no longer written or read; a later migration drops it';
COMMENT ON COLUMN sync_state.changed_fields IS 'NULL: nobody has compared the running configuration with the one at revision yet';

ALTER TABLE savepoints ADD COLUMN next_attempt_at TIMESTAMP WITH TIME ZONE;
COMMENT ON COLUMN savepoints.next_attempt_at IS 'when another container may be asked; NULL: at once';
