"""Queries of a job with several tasks: those whose rows meet in one task, and those of which some meet in none."""

from __future__ import annotations

from tests.support.config.jobs import FLIGHTS

INPUTS = {
    "weather": FLIGHTS | {"topic": "weather"},
    "rekeyed": FLIGHTS | {"topic": "rekeyed", "key_function": "spark"},
    "pairs": FLIGHTS | {"topic": "pairs", "key_function": "spark", "key_columns": ["carrier", "dest"]},
    "unkeyed": FLIGHTS | {"topic": "unkeyed", "key_function": "none", "key_columns": []},
}

TOGETHER = [
    # no state
    "SELECT * FROM unkeyed",
    "SELECT u.*, p.seats FROM unkeyed u LEFT JOIN planes p ON u.carrier = p.carrier WHERE delay > 3",
    "SELECT dest FROM unkeyed UNION ALL SELECT dest FROM flights",
    "SELECT n FROM unkeyed JOIN (SELECT carrier, count(*) n FROM planes GROUP BY carrier) USING (carrier)",
    "SELECT dest, (SELECT max(seats) FROM planes) FROM unkeyed",
    # grouped by the key, and perhaps more
    "SELECT dest, count(*) FROM flights GROUP BY dest",
    "SELECT DEST, count(*) FROM Flights GROUP BY Dest",
    "SELECT f.dest, count(*) FROM flights f GROUP BY f.dest",
    "SELECT dest AS d, count(*) FROM flights GROUP BY d",
    "SELECT dest, carrier, count(*) FROM flights GROUP BY 2, 1",
    "SELECT dest, count(*) FROM flights GROUP BY ALL",
    "SELECT window(time, '10 minutes') w, dest, avg(delay) FROM flights GROUP BY window(time, '10 minutes'), dest",
    "SELECT dest, count(*) FROM flights GROUP BY dest, session_window(time, '5 minutes')",
    "SELECT carrier, dest, count(*) FROM pairs GROUP BY dest, carrier",
    "SELECT dest, count(DISTINCT carrier) FROM flights GROUP BY dest HAVING count(*) > 3",
    # keys that keep their way through subqueries
    "WITH f AS (SELECT dest AS d, carrier FROM flights) SELECT d, count(*) FROM f GROUP BY d",
    "WITH f(d, c) AS (SELECT dest, carrier FROM flights) SELECT d, count(*) FROM f GROUP BY d",
    "SELECT t.d, count(*) FROM (SELECT dest, carrier FROM flights) AS t(d, c) GROUP BY t.d",
    "SELECT d, count(*) FROM (SELECT *, dest AS d FROM flights) GROUP BY d",
    "SELECT dest, count(*) FROM (SELECT * EXCEPT (carrier) FROM flights) GROUP BY dest",
    "SELECT dest, max(n) FROM (SELECT dest, carrier, count(*) n FROM flights GROUP BY dest, carrier) GROUP BY dest",
    "SELECT dest, count(*) FROM flights f JOIN planes p ON f.carrier = p.carrier GROUP BY dest",
    # DISTINCT and set operations over the key
    "SELECT DISTINCT dest FROM flights",
    "SELECT DISTINCT * FROM flights",
    "SELECT dest, delay FROM flights UNION SELECT dest, delay FROM weather",
    "SELECT d, count(*) FROM (SELECT dest d, 1 FROM flights UNION ALL SELECT dest, 2 FROM weather) GROUP BY d",
    # joins of streams on the key
    "SELECT f.delay, w.delay FROM flights f JOIN weather w ON f.dest = w.dest AND w.time > f.time - INTERVAL 1 HOUR",
    "SELECT f.delay FROM flights f JOIN weather w USING (dest)",
    "SELECT f.delay FROM flights f NATURAL JOIN weather w",
    "SELECT f.delay FROM flights f, weather w WHERE w.dest = f.dest",
    "SELECT f.dest, count(*) FROM flights f LEFT JOIN weather w ON w.dest = f.dest GROUP BY f.dest",
    "SELECT w.dest, count(*) FROM flights f JOIN weather w ON w.dest = f.dest GROUP BY w.dest",
    "SELECT p.dest FROM pairs p JOIN pairs q ON p.dest = q.dest AND q.carrier = p.carrier",
    "SELECT a.dest FROM flights a JOIN weather b ON a.dest = b.dest JOIN flights c ON b.dest = c.dest",
    "SELECT dest, sum(delay) OVER (PARTITION BY dest) FROM flights",
    # what follows from columns that the text does not name
    "SELECT * FROM flights PIVOT (sum(delay) FOR carrier IN ('AA', 'UA'))",
    "SELECT dest, count(*) FROM (SELECT * FROM flights UNION ALL SELECT * FROM weather) GROUP BY dest",
]
APART = [
    # input without a known key
    ("SELECT dest, count(*) FROM unkeyed GROUP BY dest", "GROUP BY"),
    ("SELECT DISTINCT dest FROM unkeyed", "DISTINCT"),
    ("SELECT count(*) FROM unkeyed", "an aggregate without GROUP BY"),
    ("SELECT f.dest FROM flights f JOIN unkeyed u ON f.dest = u.dest", "JOIN"),
    # grouped by something else
    ("SELECT carrier, count(*) FROM flights GROUP BY carrier", "GROUP BY"),
    ("SELECT dest, count(*) FROM pairs GROUP BY dest", "GROUP BY"),
    ("SELECT upper(dest), count(*) FROM flights GROUP BY upper(dest)", "GROUP BY"),
    ("SELECT upper(dest) AS dest, count(*) FROM (SELECT upper(dest) AS dest FROM flights) GROUP BY dest", "GROUP BY"),
    ("SELECT dest, count(*) FROM (SELECT carrier AS dest FROM flights) GROUP BY dest", "GROUP BY"),
    ("SELECT window(time, '1 hour'), count(*) FROM flights GROUP BY window(time, '1 hour')", "GROUP BY"),
    ("SELECT dest, count(*) FROM flights GROUP BY dest WITH ROLLUP", "GROUP BY"),
    ("SELECT dest, count(*) FROM flights GROUP BY ROLLUP (dest)", "GROUP BY"),
    ("SELECT dest, count(*) FROM flights GROUP BY GROUPING SETS ((dest), ())", "GROUP BY"),
    ("SELECT count(*) FROM flights", "an aggregate without GROUP BY"),
    ("SELECT std(delay) FROM flights", "an aggregate without GROUP BY"),
    ("SELECT 1 FROM flights HAVING count(*) > 3", "an aggregate without GROUP BY"),
    ("SELECT count(*) FILTER (WHERE delay > 3) FROM flights", "an aggregate without GROUP BY"),
    ("SELECT max(n) FROM (SELECT dest, count(*) n FROM flights GROUP BY dest)", "an aggregate without GROUP BY"),
    # all rows, or rows by other columns
    ("SELECT DISTINCT carrier FROM flights", "DISTINCT"),
    ("SELECT carrier FROM flights UNION SELECT carrier FROM weather", "DISTINCT"),
    ("SELECT carrier FROM flights INTERSECT SELECT carrier FROM weather", "INTERSECT"),
    ("SELECT * FROM flights LIMIT 3", "LIMIT"),
    ("SELECT * FROM (SELECT * FROM flights LIMIT 3)", "LIMIT"),
    ("SELECT sum(delay) OVER (PARTITION BY carrier) FROM flights", "OVER"),
    # unions whose branches are placed differently, or cannot be compared
    (
        "SELECT dest, count(*) FROM (SELECT dest FROM flights UNION ALL SELECT dest FROM rekeyed) GROUP BY dest",
        "GROUP BY",
    ),
    (
        "SELECT a, 1 FROM (SELECT dest a, delay FROM flights UNION ALL SELECT carrier, 1 FROM weather) GROUP BY a",
        "GROUP BY",
    ),
    ("SELECT a, count(*) FROM (SELECT upper(dest) AS a, dest AS a FROM flights) AS t(a, b) GROUP BY a", "GROUP BY"),
    # joins that do not bring equal keys together
    ("SELECT f.dest FROM flights f JOIN weather w ON f.carrier = w.carrier", "JOIN"),
    ("SELECT f.dest FROM flights f JOIN weather w ON f.dest < w.dest", "JOIN"),
    ("SELECT f.dest FROM flights f JOIN weather w ON f.dest = w.dest OR f.time = w.time", "JOIN"),
    ("SELECT f.dest FROM flights f JOIN rekeyed r ON f.dest = r.dest", "JOIN"),
    ("SELECT p.dest FROM pairs p JOIN pairs q ON p.dest = q.carrier AND p.carrier = q.dest", "JOIN"),
    ("SELECT * FROM flights CROSS JOIN weather", "JOIN"),
    ("SELECT w.dest, count(*) FROM flights f LEFT JOIN weather w ON w.dest = f.dest GROUP BY w.dest", "GROUP BY"),
    ("SELECT f.dest, count(*) FROM flights f FULL JOIN weather w ON w.dest = f.dest GROUP BY f.dest", "GROUP BY"),
]
