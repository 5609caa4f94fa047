-- Checkpoints of other Spark applications become savepoints, from which jobs start.

SET LOCAL lock_timeout = '5s';

ALTER TABLE savepoints ADD COLUMN checkpoint TEXT;

COMMENT ON COLUMN savepoints.checkpoint IS 'the checkpoint of another application that it is made of; NULL: the job''s own';
