-- Jobs with side outputs: their topics, folders and tables count as those of `output` do.

SET LOCAL lock_timeout = '5s';

ALTER TABLE flows
    ADD COLUMN side_topics TEXT[] NOT NULL DEFAULT '{}',
    ADD COLUMN side_loops TEXT[] NOT NULL DEFAULT '{}',
    ADD COLUMN side_stores TEXT[] NOT NULL DEFAULT '{}',
    ADD COLUMN side_folders TEXT[] NOT NULL DEFAULT '{}';

CREATE INDEX ix_flows_side_topics ON flows USING gin (side_topics);
CREATE INDEX ix_flows_side_stores ON flows USING gin (side_stores);

COMMENT ON COLUMN flows.side_topics IS 'topics of its side outputs, in order';
COMMENT ON COLUMN flows.side_loops IS 'those of side_topics whose records may come back to it';
COMMENT ON COLUMN flows.side_stores IS 'folders and tables of its side outputs, in order';
COMMENT ON COLUMN flows.side_folders IS 'those of side_stores that it shares with none';

-- A Job Service of the release before changes a configuration, and leaves these columns.
DROP TRIGGER other_flow ON expected_configs;
CREATE TRIGGER other_flow AFTER UPDATE ON expected_configs
    FOR EACH ROW WHEN (
        NEW.config->'output' IS DISTINCT FROM OLD.config->'output'
        OR NEW.config->'side_outputs' IS DISTINCT FROM OLD.config->'side_outputs'
        OR NEW.config->'dead_letter_topic' IS DISTINCT FROM OLD.config->'dead_letter_topic'
    ) EXECUTE FUNCTION unnote_flow_of();
