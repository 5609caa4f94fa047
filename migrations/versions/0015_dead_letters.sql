-- No job writes its output to the topic of another job's malformed records, nor to its Delta table.

ALTER TABLE flows ADD COLUMN dead_letters TEXT;
CREATE INDEX ix_flows_dead_letters ON flows (dead_letters) WHERE dead_letters IS NOT NULL;
CREATE INDEX ix_flows_unnoted ON flows (job) WHERE dead_letters IS NULL;
COMMENT ON TABLE flows IS 'Topics and folder of each job. Where dead_letters is NULL, expected_configs has them.';
COMMENT ON COLUMN flows.folder IS 'folder of its files, or its Delta table if it shares that with none; NULL: it has none';
COMMENT ON COLUMN flows.dead_letters IS 'topic of its malformed records; NULL: this and folder must be read from expected_configs';

-- The Job Service fills the rows (services.job_service.store.flows). A migration would lock the table meanwhile.

-- A Job Service of the release before changes a row and leaves this column, or changes a configuration and no row.
CREATE FUNCTION unnote_flow() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    NEW.dead_letters := NULL;
    RETURN NEW;
END
$$;
CREATE TRIGGER without_dead_letters BEFORE UPDATE ON flows
    FOR EACH ROW WHEN (NEW.dead_letters = OLD.dead_letters) EXECUTE FUNCTION unnote_flow();

CREATE FUNCTION unnote_flow_of() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    UPDATE flows SET dead_letters = NULL WHERE job = NEW.job;
    RETURN NULL;
END
$$;
CREATE TRIGGER other_flow AFTER UPDATE ON expected_configs
    FOR EACH ROW WHEN (
        NEW.config->'output' IS DISTINCT FROM OLD.config->'output'
        OR NEW.config->'dead_letter_topic' IS DISTINCT FROM OLD.config->'dead_letter_topic'
    ) EXECUTE FUNCTION unnote_flow_of();
