-- What an operator needs: tokens that end and are rotated, the history of the cell, alerts that are acknowledged and
-- silenced, and since when a loop has its leader.

-- A lock that is not had soon is given up: whoever waits for it holds up all who come after.
SET LOCAL lock_timeout = '5s';

ALTER TABLE tokens ADD COLUMN expires_at TIMESTAMP WITH TIME ZONE;
COMMENT ON COLUMN tokens.expires_at IS 'when the token ends; NULL: never';

CREATE TABLE former_secrets (
    hash TEXT PRIMARY KEY,
    token BIGINT NOT NULL REFERENCES tokens ON DELETE CASCADE,
    good_until TIMESTAMP WITH TIME ZONE NOT NULL
);
COMMENT ON TABLE former_secrets IS 'Secrets of tokens from before a rotation, good for a while beside the new ones. A release that does not know the table refuses them.';

CREATE TABLE cell_history (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    author TEXT NOT NULL,
    action TEXT NOT NULL CHECK (action IN (
        'token_created','token_rotated','token_revoked','admin_recovered','shard_count_asked',
        'layer_added','layer_changed','layer_dropped',
        'container_cordoned','container_drained','container_uncordoned','container_forgotten',
        'alert_acknowledged','acknowledgement_ended','silence_created','silence_ended')),
    subject TEXT NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    "old" JSONB,
    "new" JSONB
);
CREATE INDEX ix_cell_history_subject ON cell_history (subject, id);
COMMENT ON TABLE cell_history IS 'Every write to the cell that is no write to a job: who, when, why. Append-only.';
COMMENT ON COLUMN cell_history.subject IS 'the token, layer, container, alert or silence; cell: the cell itself';
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON cell_history
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

ALTER TABLE alerts
    ADD COLUMN acknowledged_by TEXT,
    ADD COLUMN acknowledged_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN acknowledged_until TIMESTAMP WITH TIME ZONE,
    ADD COLUMN acknowledged_reason TEXT;
COMMENT ON COLUMN alerts.acknowledged_by IS 'who works on it; NULL: nobody said so';
COMMENT ON COLUMN alerts.acknowledged_until IS 'when the acknowledgement ends; NULL: when the alert closes';

CREATE TABLE silences (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind TEXT,
    subject TEXT NOT NULL,
    subject_like TEXT NOT NULL,
    author TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL
);
CREATE INDEX ix_silences_expires_at ON silences (expires_at);
COMMENT ON TABLE silences IS 'Which alerts are left out of lists, and until when. The alerts are raised and recorded as always.';
COMMENT ON COLUMN silences.kind IS 'NULL: alerts of every kind';
COMMENT ON COLUMN silences.subject IS 'pattern as it was written: * stands for any characters';
COMMENT ON COLUMN silences.subject_like IS 'the same pattern for LIKE';
COMMENT ON COLUMN silences.expires_at IS 'when it ends; brought forward when an operator ends it';

-- By a trigger, so that a leader of the release before is noted as well.
ALTER TABLE leases ADD COLUMN taken_at TIMESTAMP WITH TIME ZONE;
COMMENT ON COLUMN leases.taken_at IS 'since when the holder leads; NULL: since before the column was there';
CREATE FUNCTION note_take_over() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.epoch <> OLD.epoch THEN
        NEW.taken_at := clock_timestamp();
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER taken_at BEFORE INSERT OR UPDATE ON leases
    FOR EACH ROW EXECUTE FUNCTION note_take_over();
