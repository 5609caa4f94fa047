-- Old generations, noted and collected by the State Syncer. It notes those of jobs that were there before, and of plans
-- that a release before this one carries out, when it looks.

CREATE TABLE generations (
    job TEXT NOT NULL,
    generation BIGINT NOT NULL,
    attempted BOOLEAN DEFAULT false NOT NULL,
    unused_since TIMESTAMP WITH TIME ZONE,
    container TEXT,
    attempts INTEGER DEFAULT '0' NOT NULL,
    detail TEXT DEFAULT '' NOT NULL,
    next_attempt_at TIMESTAMP WITH TIME ZONE,
    collected_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_generations PRIMARY KEY (job, generation)
);
CREATE INDEX ix_running_rescaled ON running (job) WHERE generation > 1 OR newest_generation > 1;
