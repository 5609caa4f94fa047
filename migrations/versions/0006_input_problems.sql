-- The few tasks that report a problem with their inputs are found among 100,000 without reading the others.

-- A lock that is not had soon is given up: whoever waits for it holds up all who come after.
SET LOCAL lock_timeout = '5s';

-- A generated column would rewrite the table, and an index on `progress` itself would make each report of each task write
-- to all indexes. A release that does not know the column writes it too, by the trigger.
ALTER TABLE tasks ADD COLUMN has_input_problems BOOLEAN DEFAULT false NOT NULL;
COMMENT ON COLUMN tasks.has_input_problems IS 'whether a running task reports something wrong with its inputs; a trigger writes it';

CREATE FUNCTION has_input_problems(state TEXT, progress JSONB) RETURNS BOOLEAN LANGUAGE sql IMMUTABLE
    RETURN state = 'running'
        AND coalesce(jsonb_typeof(progress->'input_problems') = 'object' AND progress->'input_problems' <> '{}', false);

CREATE FUNCTION note_input_problems() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    NEW.has_input_problems := has_input_problems(NEW.state, NEW.progress);
    RETURN NEW;
END
$$;
CREATE TRIGGER input_problems BEFORE INSERT OR UPDATE ON tasks
    FOR EACH ROW EXECUTE FUNCTION note_input_problems();

UPDATE tasks SET has_input_problems = true WHERE has_input_problems(state, progress);
CREATE INDEX ix_tasks_input_problems ON tasks (job, index) WHERE has_input_problems;
