-- Savepoints: asked for through the Job Service, taken and removed by containers that the State Syncer asks. A release
-- before this one neither writes nor reads them.

CREATE TABLE savepoints (
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    job TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT DEFAULT 'asked' NOT NULL,
    detail TEXT DEFAULT '' NOT NULL,
    generation BIGINT,
    revision BIGINT,
    config JSONB,
    container TEXT,
    attempts INTEGER DEFAULT '0' NOT NULL,
    tasks JSONB,
    bytes BIGINT,
    author TEXT NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_savepoints PRIMARY KEY (number),
    CONSTRAINT ck_savepoints_state_known CHECK (state IN ('asked','ready','failed','deleting'))
);
CREATE UNIQUE INDEX uq_savepoints_job_name ON savepoints (job, name);
CREATE INDEX ix_savepoints_open ON savepoints (number) WHERE state IN ('asked','deleting');

CREATE TABLE restores (
    job TEXT NOT NULL,
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    savepoint BIGINT NOT NULL,
    savepoint_job TEXT NOT NULL,
    savepoint_name TEXT NOT NULL,
    generation BIGINT NOT NULL,
    config JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_restores PRIMARY KEY (job),
    CONSTRAINT fk_restores_job FOREIGN KEY(job) REFERENCES jobs (name) ON DELETE CASCADE
);
CREATE INDEX ix_restores_savepoint ON restores (savepoint);
