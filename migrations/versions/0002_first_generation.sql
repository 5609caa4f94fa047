-- The generations of a job that was deleted and made again: which are of the present one.

ALTER TABLE running ADD COLUMN first_generation BIGINT DEFAULT 1 NOT NULL CHECK (first_generation >= 1);
COMMENT ON COLUMN running.first_generation IS 'first generation of this job: a deleted job of its name had lower ones; 1 for jobs that are older than this column';
