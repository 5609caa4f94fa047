-- Reports carry what changed; samples are kept by day and go by day.

-- A lock that is not had soon is given up: whoever waits for it holds up all who come after.
SET LOCAL lock_timeout = '5s';

ALTER TABLE reports ADD COLUMN number BIGINT, ADD COLUMN base BIGINT;
COMMENT ON TABLE reports IS 'The newest report of each container; the table tasks has its tasks.';
COMMENT ON COLUMN reports.number IS 'of the report, which grows in the life of a container; NULL: it had none';
COMMENT ON COLUMN reports.base IS 'number of the newest report that had news of tasks; changes to any other are refused; NULL: a full report must come';
COMMENT ON COLUMN tasks.reported_at IS 'when this row was told last; reports.reported_at: when its container was heard last';

-- A Task Service of the release before writes reports, and their tasks, without numbers: no changes to them may follow.
CREATE FUNCTION want_full_report() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    NEW.base := NULL;
    RETURN NEW;
END
$$;
CREATE TRIGGER without_number BEFORE UPDATE ON reports
    FOR EACH ROW WHEN (NEW.base IS NOT NULL AND NEW.number = OLD.number) EXECUTE FUNCTION want_full_report();

-- Room for new versions of a row on its page, so that an update touches no index.
ALTER TABLE tasks SET (fillfactor = 80);
ALTER TABLE reports SET (fillfactor = 50);


-- Samples. The table of before stays as it is and takes no more rows. It becomes the oldest part of the new one when its
-- rows have been checked, which takes long and locks nothing (`keep_former_samples`).

ALTER TABLE task_metrics RENAME TO task_metrics_before;
ALTER INDEX task_metrics_pkey RENAME TO task_metrics_before_pkey;
ALTER INDEX ix_task_metrics_minute RENAME TO ix_task_metrics_before_minute;

CREATE TABLE task_metrics (LIKE task_metrics_before INCLUDING DEFAULTS INCLUDING COMMENTS) PARTITION BY RANGE (minute);
ALTER TABLE task_metrics ADD PRIMARY KEY (job, index, minute);
CREATE INDEX ix_task_metrics_minute ON task_metrics (minute);
COMMENT ON TABLE task_metrics IS 'One sample for each task and minute, kept by day (UTC). NULL is unknown, never zero.';

CREATE FUNCTION add_samples_part(begins TIMESTAMPTZ, ends TIMESTAMPTZ) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    part TEXT := 'task_metrics_' || to_char((ends - interval '1 day') AT TIME ZONE 'UTC', 'YYYYMMDD');
BEGIN
    IF to_regclass(part) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE task_metrics INCLUDING ALL)', part);
    EXECUTE format('COMMENT ON TABLE %I IS %L', part, 'Samples of one day (UTC).');
    -- Unlike CREATE TABLE ... PARTITION OF, this does not lock out readers and writers of the table.
    EXECUTE format('ALTER TABLE task_metrics ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%L)', part,
        coalesce(quote_literal(begins), 'MINVALUE'), ends);
END
$$;

CREATE FUNCTION add_sample_days(ahead INTEGER) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    day TIMESTAMPTZ;
BEGIN
    FOR number IN 0..ahead LOOP
        day := (date_trunc('day', clock_timestamp() AT TIME ZONE 'UTC') + make_interval(days => number)) AT TIME ZONE 'UTC';
        PERFORM add_samples_part(day, day + interval '1 day');
    END LOOP;
END
$$;
COMMENT ON FUNCTION add_sample_days IS 'Adds the parts of task_metrics for today and the days after it.';

CREATE VIEW sample_parts AS
    SELECT parts.relname::text AS part,
        (regexp_match(pg_get_expr(parts.relpartbound, parts.oid), $r$FROM \('([^']+)'\)$r$))[1]::timestamptz AS begins,
        (regexp_match(pg_get_expr(parts.relpartbound, parts.oid), $r$TO \('([^']+)'\)$r$))[1]::timestamptz AS ends
    FROM pg_inherits JOIN pg_class parts ON parts.oid = inhrelid WHERE inhparent = 'task_metrics'::regclass;
COMMENT ON VIEW sample_parts IS 'The parts of task_metrics; begins is NULL for the one that has all that came before.';

CREATE FUNCTION drop_oldest_samples(keep_days INTEGER) RETURNS TEXT
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    oldest TEXT;
BEGIN
    SELECT part INTO oldest FROM sample_parts
    WHERE ends <= clock_timestamp() - make_interval(days => keep_days) ORDER BY ends LIMIT 1;
    IF oldest IS NOT NULL THEN
        EXECUTE format('DROP TABLE %I', oldest);
    END IF;
    RETURN oldest;
END
$$;
COMMENT ON FUNCTION drop_oldest_samples IS 'Drops the oldest part of task_metrics if all of it is older; its name, or NULL.';

CREATE FUNCTION keep_former_samples() RETURNS BOOLEAN
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF to_regclass('task_metrics_before') IS NULL
            OR EXISTS (SELECT FROM sample_parts WHERE part = 'task_metrics_before') THEN
        RETURN false;
    END IF;
    ALTER TABLE task_metrics_before VALIDATE CONSTRAINT before;
    EXECUTE format('ALTER TABLE task_metrics ATTACH PARTITION task_metrics_before FOR VALUES FROM (MINVALUE) TO (%L)',
        (SELECT min(begins) FROM sample_parts));
    RETURN true;
END
$$;
COMMENT ON FUNCTION keep_former_samples IS 'Makes the table of before the oldest part of task_metrics; whether it was not yet.';

DO $$
DECLARE
    begins TIMESTAMPTZ := CASE WHEN EXISTS (SELECT FROM task_metrics_before) THEN date_trunc('minute', now()) END;
BEGIN
    PERFORM add_samples_part(begins, (date_trunc('day', now() AT TIME ZONE 'UTC') + interval '1 day') AT TIME ZONE 'UTC');
    PERFORM add_sample_days(7);
    WITH present AS (DELETE FROM task_metrics_before WHERE minute >= begins RETURNING *)
    INSERT INTO task_metrics SELECT * FROM present;
    IF begins IS NOT NULL THEN
        EXECUTE format('ALTER TABLE task_metrics_before ADD CONSTRAINT before CHECK (minute < %L) NOT VALID', begins);
    ELSE
        DROP TABLE task_metrics_before;
    END IF;
END
$$;

-- One process takes the samples of a minute: that which sets this number to it, in minutes since 1970.
INSERT INTO counters (name, value) VALUES ('sampled_minute', 0);


-- The savepoints of a job that count are found without reading others.
CREATE INDEX ix_savepoints_kept ON savepoints (job, state, number DESC) INCLUDE (created_at)
    WHERE state IN ('ready', 'failed');


-- History may be moved away by age, and nothing else may happen to it: a row is deleted only when the archive has the
-- same row. The newest row of each layer of a job stays, so that no version is used twice (`refuse_used_version`).
CREATE TABLE history_archive (LIKE history INCLUDING COMMENTS, PRIMARY KEY (id));
CREATE INDEX ix_history_archive_job_id ON history_archive (job, id);
COMMENT ON TABLE history_archive IS 'Rows of history that were moved by age. Append-only. No service reads it.';
COMMENT ON TABLE history IS 'Every write to a job. Append-only; old rows may be moved to history_archive, where a setting asks for it.';

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON history_archive
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION refuse_loss() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    gone JSONB := to_jsonb(OLD);
BEGIN
    IF NOT EXISTS (SELECT FROM history_archive kept WHERE kept.id = OLD.id AND to_jsonb(kept) = gone) THEN
        RAISE EXCEPTION 'row % of % is not in the archive', OLD.id, TG_TABLE_NAME USING ERRCODE = 'check_violation';
    END IF;
    IF NOT EXISTS (
        SELECT FROM history later WHERE later.job = OLD.job AND later.layer IS NOT DISTINCT FROM OLD.layer AND later.id > OLD.id
    ) THEN
        RAISE EXCEPTION 'row % of % is the newest of its layer', OLD.id, TG_TABLE_NAME USING ERRCODE = 'check_violation';
    END IF;
    RETURN OLD;
END
$$;
DROP TRIGGER append_only ON history;
CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON history FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER moved_only BEFORE DELETE ON history FOR EACH ROW EXECUTE FUNCTION refuse_loss();
