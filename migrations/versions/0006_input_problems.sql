-- The few tasks that report a problem with their inputs are found among 100,000 without reading the others.

-- An index on `progress` itself would make each report of each task write to all indexes of the table.
ALTER TABLE tasks ADD COLUMN has_input_problems BOOLEAN GENERATED ALWAYS AS (state = 'running'
    AND coalesce(jsonb_typeof(progress -> 'input_problems') = 'object' AND progress -> 'input_problems' <> '{}', false)
) STORED;
COMMENT ON COLUMN tasks.has_input_problems IS 'whether a running task reports something wrong with its inputs';
CREATE INDEX ix_tasks_input_problems ON tasks (job, index) WHERE has_input_problems;
