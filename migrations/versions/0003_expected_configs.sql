-- The merged, validated configuration of a job, stored by the Job Service with each write of a layer. A release before
-- this one neither writes nor reads it: what it writes has a newer revision, so the row here is seen to be old.

CREATE TABLE expected_configs (
    job TEXT NOT NULL,
    config JSONB NOT NULL,
    revision BIGINT NOT NULL,
    basis TEXT NOT NULL,
    CONSTRAINT pk_expected_configs PRIMARY KEY (job),
    CONSTRAINT fk_expected_configs_job FOREIGN KEY(job) REFERENCES jobs (name) ON DELETE CASCADE
);

-- Room for the rows of a page to be changed in place, without their index: a release changes all of them.
ALTER TABLE sync_state SET (fillfactor = 50);
