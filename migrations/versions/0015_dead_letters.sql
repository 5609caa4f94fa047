-- No job writes its output to the topic of another job's malformed records.

ALTER TABLE flows ADD COLUMN dead_letters TEXT;
CREATE INDEX ix_flows_dead_letters ON flows (dead_letters) WHERE dead_letters IS NOT NULL;
COMMENT ON COLUMN flows.dead_letters IS 'topic of its malformed records; NULL: written by a release that did not say it';

-- A job whose row differs from this is written anew with its next write.
UPDATE flows SET dead_letters = coalesce(known.config->>'dead_letter_topic', known.job || '.dead-letters')
FROM expected_configs AS known WHERE known.job = flows.job;
