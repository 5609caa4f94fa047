-- What a package that is not healthy may be rolled back to.

CREATE FUNCTION code_of(config JSONB) RETURNS TEXT LANGUAGE sql IMMUTABLE
    RETURN md5(coalesce(config->>'package', '') || '/' || coalesce(config->>'query', ''));
COMMENT ON FUNCTION code_of IS 'names the package and the query of a configuration';

ALTER TABLE running ADD COLUMN code TEXT GENERATED ALWAYS AS (code_of(config)) STORED;
COMMENT ON COLUMN running.code IS 'names the package and the query of config';

CREATE TABLE proven (
    job TEXT NOT NULL,
    code TEXT NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (job, code)
);
COMMENT ON TABLE proven IS 'Packages and queries with which a task of the job has finished a batch with rows. Forgotten with the job.';
COMMENT ON COLUMN proven.code IS 'as running.code';
