-- The store has an incarnation: numbers that it hands out mean the same only within one.

CREATE TABLE incarnations (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    incarnation TEXT NOT NULL UNIQUE,
    former TEXT,
    since TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    author TEXT NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    raised JSONB DEFAULT '{}' NOT NULL CHECK (jsonb_typeof(raised) = 'object')
);
COMMENT ON TABLE incarnations IS 'Each incarnation of the store: the present one is in cluster. penstock restored begins another.';
COMMENT ON COLUMN incarnations.former IS 'incarnation that the store had in the backup or before the fail-over; NULL: the first';
COMMENT ON COLUMN incarnations.raised IS 'how far numbers were raised, so that none is used twice';

INSERT INTO cluster (key, value) VALUES ('incarnation', to_jsonb(replace(gen_random_uuid()::text, '-', '')))
ON CONFLICT (key) DO NOTHING;
INSERT INTO incarnations (incarnation, author, reason)
SELECT value #>> '{}', 'migration', 'first incarnation' FROM cluster WHERE key = 'incarnation';
