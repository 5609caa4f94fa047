-- The jobs that read a topic are found by an index, for the graph of jobs and topics around a job.

SET LOCAL lock_timeout = '5s';

CREATE INDEX ix_flows_reads ON flows USING gin (reads);
