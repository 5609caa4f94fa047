-- Which of many jobs are over their SLO is asked four times a minute, without their configurations.

ALTER TABLE running ADD COLUMN max_lag_seconds DOUBLE PRECISION
    GENERATED ALWAYS AS ((config->'slo'->>'max_lag_seconds')::double precision) STORED;
COMMENT ON COLUMN running.max_lag_seconds IS 'slo.max_lag_seconds of config; NULL: not set, so the default of the code';
CREATE INDEX ix_running_max_lag_seconds ON running (max_lag_seconds);
