-- Whether a container takes shards, and how full it is. A release before this one neither writes nor reads them: its
-- containers are open, and how full they are is unknown.

ALTER TABLE containers
    ADD COLUMN availability TEXT DEFAULT 'open' NOT NULL,
    ADD COLUMN drain_until TIMESTAMP WITH TIME ZONE,
    ADD COLUMN availability_reason TEXT,
    ADD COLUMN availability_by TEXT,
    ADD COLUMN availability_at TIMESTAMP WITH TIME ZONE,
    ADD COLUMN placement JSONB,
    ADD CONSTRAINT ck_containers_availability_known CHECK (availability IN ('open','cordoned','draining')),
    ADD CONSTRAINT ck_containers_drain_until_of_a_drain CHECK (drain_until IS NULL OR availability = 'draining');
