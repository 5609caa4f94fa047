-- What others must be able to see of a loop, and what a container must be told before it gets more shards.

-- A lock that is not had soon is given up: whoever waits for it holds up all who come after.
SET LOCAL lock_timeout = '5s';

-- The newest commit of a stop that was taken as done although not every container had reported since.
INSERT INTO counters (name, value) VALUES ('unasked_stop', 0);

CREATE TABLE loop_rounds (
    loop TEXT PRIMARY KEY,
    epoch BIGINT NOT NULL,
    period_seconds DOUBLE PRECISION NOT NULL CHECK (period_seconds > 0),
    ended_at TIMESTAMPTZ NOT NULL,
    seconds DOUBLE PRECISION NOT NULL CHECK (seconds >= 0),
    good_at TIMESTAMPTZ,
    error TEXT
);
COMMENT ON TABLE loop_rounds IS 'The newest round of each control loop, as its leader noted it: for people, and for the loops that watch it. Not every round is noted.';
COMMENT ON COLUMN loop_rounds.epoch IS 'the leader epoch of the round';
COMMENT ON COLUMN loop_rounds.period_seconds IS 'a round comes at least this often while all is well';
COMMENT ON COLUMN loop_rounds.good_at IS 'the end of the newest round without an error; null: there was none';
COMMENT ON COLUMN loop_rounds.error IS 'of the newest round; null: it had none';
