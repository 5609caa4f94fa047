-- Staging runs of a job's query on a Spark host, and what they measured.

SET LOCAL lock_timeout = '5s';

CREATE TABLE profiles (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE,
    state TEXT DEFAULT 'asked' NOT NULL CHECK (state IN ('asked','done','failed')),
    detail TEXT DEFAULT '' NOT NULL,
    seconds INTEGER NOT NULL CHECK (seconds > 0),
    revision BIGINT NOT NULL,
    config JSONB NOT NULL,
    container TEXT,
    attempts INTEGER DEFAULT 0 NOT NULL,
    report JSONB,
    author TEXT NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE
);
CREATE UNIQUE INDEX uq_profiles_asked ON profiles (job) WHERE state = 'asked';
CREATE INDEX ix_profiles_job ON profiles (job, number DESC);
COMMENT ON TABLE profiles IS 'Profiles of a job: asked for, done or failed. The newest ten of a job are kept.';
COMMENT ON COLUMN profiles.detail IS 'why it failed or is tried again, for people';
COMMENT ON COLUMN profiles.config IS 'the expected configuration when it was asked for, which is what runs';
COMMENT ON COLUMN profiles.container IS 'container that is asked; recorded before it is asked';
COMMENT ON COLUMN profiles.report IS 'what was measured (penstock.tasks.profile.ProfileReport), once done';
