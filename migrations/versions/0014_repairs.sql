-- Repairs: samples go on after `penstock restored`.

-- `penstock restored` raises every row of counters. A minute among them was then years ahead, and no sample was taken.
CREATE TABLE sampled (
    the_row BOOLEAN PRIMARY KEY DEFAULT true CHECK (the_row),
    minute TIMESTAMP WITH TIME ZONE NOT NULL
);
COMMENT ON TABLE sampled IS 'One row: the minute of the newest samples. One process takes them: that which sets it.';
INSERT INTO sampled (minute) VALUES ('-infinity');
DELETE FROM counters WHERE name = 'sampled_minute';
COMMENT ON TABLE counters IS 'One row for each number that is handed out; penstock restored raises all. Taking a number locks the row until commit, so numbers become visible in order.';
