-- Which flows have a pattern among their reads, and which name no topic and no folder: few of many, and each write asks
-- for them. Expressions and not predicates: Postgres counts their values, so it knows that they are few.

SET LOCAL lock_timeout = '5s';

-- The names of patterns begin with a tilde. What comes after it in the order of bytes is found, too.
CREATE INDEX ix_flows_patterns ON flows ((CASE WHEN '~' COLLATE "C" <= ANY (reads) THEN 1 END));
CREATE INDEX ix_flows_placeless ON flows ((CASE WHEN writes IS NULL AND folder IS NULL THEN 1 END));
