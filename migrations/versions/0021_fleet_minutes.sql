-- The whole fleet by minute, for its shares over time.

SET LOCAL lock_timeout = '5s';

CREATE TABLE fleet_minutes (
    minute TIMESTAMP WITH TIME ZONE PRIMARY KEY,
    health JSONB,
    tasks INTEGER,
    tasks_running INTEGER,
    tasks_not_running INTEGER
);
COMMENT ON TABLE fleet_minutes IS 'How the fleet was in a minute; null is unknown. Rows go by age.';
COMMENT ON COLUMN fleet_minutes.health IS 'number of jobs by health, of a count that began in this minute';
COMMENT ON COLUMN fleet_minutes.tasks IS 'tasks that should run';
COMMENT ON COLUMN fleet_minutes.tasks_not_running IS 'tasks that are reported and do not run';
