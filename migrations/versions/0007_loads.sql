-- What tasks use, and what containers offer, in any dimension by name. A release before this one neither writes nor reads
-- them: its containers have nothing further, and the loads of its tasks are unknown.

CREATE TABLE task_loads (
    job TEXT NOT NULL,
    index INTEGER NOT NULL,
    generation BIGINT NOT NULL,
    load JSONB NOT NULL,
    measured_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_task_loads PRIMARY KEY (job, index)
);

ALTER TABLE containers
    ADD COLUMN further_capacity JSONB DEFAULT '{}' NOT NULL,
    ADD COLUMN labels JSONB DEFAULT '{}' NOT NULL;
