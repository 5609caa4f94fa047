-- Repairs: samples go on after `penstock restored`, and only services tend them.

-- `penstock restored` raises every row of counters. A minute among them was then years ahead, and no sample was taken.
CREATE TABLE sampled (
    the_row BOOLEAN PRIMARY KEY DEFAULT true CHECK (the_row),
    minute TIMESTAMP WITH TIME ZONE NOT NULL
);
COMMENT ON TABLE sampled IS 'One row: the minute of the newest samples. One process takes them: that which sets it.';
INSERT INTO sampled (minute) VALUES ('-infinity');
DELETE FROM counters WHERE name = 'sampled_minute';
COMMENT ON TABLE counters IS 'One row for each number that is handed out; penstock restored raises all. Taking a number locks the row until commit, so numbers become visible in order.';

-- Functions that act as their owner would otherwise be anybody's. roles.sql does the same for all that come later.
REVOKE EXECUTE ON FUNCTION add_samples_part, add_sample_days, drop_oldest_samples, keep_former_samples FROM PUBLIC;

-- No table of the caller stands in for those that they name.
ALTER FUNCTION add_samples_part SET search_path = public, pg_temp;
ALTER FUNCTION add_sample_days SET search_path = public, pg_temp;
ALTER FUNCTION keep_former_samples SET search_path = public, pg_temp;

CREATE OR REPLACE FUNCTION drop_oldest_samples(keep_days INTEGER) RETURNS TEXT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    oldest TEXT;
BEGIN
    IF keep_days IS NULL OR keep_days < 1 THEN
        RAISE EXCEPTION 'keep_days is %, and must be at least 1', keep_days USING ERRCODE = 'check_violation';
    END IF;
    SELECT part INTO oldest FROM sample_parts
    WHERE ends <= clock_timestamp() - make_interval(days => keep_days) ORDER BY ends LIMIT 1;
    IF oldest IS NOT NULL THEN
        EXECUTE format('DROP TABLE %I', oldest);
    END IF;
    RETURN oldest;
END
$$;
