-- `/sync` shows the difference that is still asked for, and nothing of a change that is synced.
ALTER TABLE sync_state DROP COLUMN changed_from;
COMMENT ON COLUMN sync_state.changed_fields IS 'NULL: nobody has compared the running configuration with the one at revision yet';

ALTER TABLE savepoints ADD COLUMN next_attempt_at TIMESTAMP WITH TIME ZONE;
COMMENT ON COLUMN savepoints.next_attempt_at IS 'when another container may be asked; NULL: at once';
