"""Wrong jobs that Spark's analysis catches: by a plan, a write with a warm host, and at the latest before the first
task starts; and right jobs that are near them."""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from penstock.tasks.analysis import Operator
from tests.support.kafka.protobuf import field, message, text, with_imports
from tests.support.spark.wrong_jobs import (
    AGGREGATED,
    BOTH,
    BY_INT,
    NO_TIME,
    SEVERAL,
    TWO,
    UPDATE,
    WrongJob,
    python,
    sql,
)
from tests.support.spark.wrong_outputs import OUTPUTS

NODE = message("Node", field(1, "id", "int64"), field(2, "next", ".Node"))
NODES = text(with_imports(FileDescriptorProto(name="nodes.proto", message_type=[NODE])))


def step(operation: str, *by: str, inputs: tuple[str, ...] = ("flights",), colocated: bool = True) -> Operator:
    """An operator that an analysis reports."""
    return Operator(operation=operation, inputs=inputs, by=by, colocated=colocated)


SPARK = [
    WrongJob("an unknown column", sql("SELECT dset FROM flights"), "query.sql", "unresolved_column", "`dset`"),
    WrongJob("a misspelt function", sql("SELECT lowr(dest) FROM flights"), "query.sql", "unresolved_routine", "`lowr`"),
    WrongJob(
        "types that do not fit",
        sql("SELECT sqrt(time) FROM flights"),
        "query.sql",
        "datatype_mismatch",
        'requires the "DOUBLE" type',
    ),
    WrongJob(
        "a column that is not grouped",
        sql("SELECT dest, delay, count(*) FROM flights GROUP BY dest", **UPDATE),
        "query.sql",
        "missing_aggregation",
        "delay",
    ),
    WrongJob(
        "an ambiguous column",
        sql("SELECT dest FROM flights f JOIN weather w ON f.dest = w.dest", **TWO),
        "query.sql",
        "ambiguous_reference",
        "`dest` is ambiguous",
    ),
    WrongJob(
        "a union of different widths",
        sql("SELECT dest FROM flights UNION ALL SELECT dest, n FROM flights"),
        "query.sql",
        "num_columns_mismatch",
        "number of columns",
    ),
    WrongJob(
        "a window of a number",
        sql("SELECT window(n, '1 hour') FROM flights"),
        "query.sql",
        "datatype_mismatch",
        'however "n" has the type "INT"',
    ),
    WrongJob(
        "an aggregation that never ends",
        sql(AGGREGATED, inputs={"flights": NO_TIME}),
        "output_mode",
        "streaming_output_mode",
        "watermark_delay",
    ),
    WrongJob(
        "an aggregation by no event time",
        sql("SELECT dest, count(*) FROM flights GROUP BY dest"),
        "output_mode",
        "streaming_output_mode",
        "append",
    ),
    WrongJob(
        "DISTINCT for ever",
        sql("SELECT DISTINCT dest FROM flights"),
        "output_mode",
        "streaming_output_mode",
        "for streaming aggregations without watermark",
    ),
    WrongJob(
        "complete without an aggregation",
        {"output_mode": "complete"},
        "output_mode",
        "streaming_output_mode",
        "not supported for no streaming aggregations",
    ),
    WrongJob(
        "a sorted stream",
        sql("SELECT * FROM flights ORDER BY n"),
        "output_mode",
        "unsupported_operation",
        "Sorting is not supported",
    ),
    WrongJob(
        "a limit in update mode",
        sql("SELECT * FROM flights LIMIT 3", **UPDATE),
        "output_mode",
        "unsupported_operation",
        "Limits",
    ),
    WrongJob(
        "an outer join that never ends",
        sql("SELECT f.n FROM flights f LEFT JOIN weather w ON f.dest = w.dest", **TWO),
        "output_mode",
        "unsupported_operation",
        "watermark",
    ),
    WrongJob(
        "a ranking over a stream",
        sql("SELECT row_number() OVER (PARTITION BY dest ORDER BY n) FROM flights"),
        "output_mode",
        "non_time_window_not_supported_in_streaming",
        "Window function is not supported in ROW_NUMBER()",
    ),
    WrongJob(
        "a subquery over a stream",
        sql("SELECT * FROM flights WHERE dest IN (SELECT dest FROM weather)", **TWO),
        "query.sql",
        "invalid_subquery_expression",
        "Join the stream instead",
    ),
    WrongJob(
        "a distinct count over a stream",
        sql("SELECT window(time, '1 hour'), count(DISTINCT n) FROM flights GROUP BY 1"),
        "output_mode",
        "unsupported_operation",
        "Distinct aggregations are not supported",
    ),
    WrongJob(
        "an event time that is text",
        {"inputs": {"flights": {"event_time_column": "dest"}}},
        "inputs.flights.value_schema",
        "event_time_is_not_on_timestamp_type",
        "dest",
    ),
    WrongJob(
        "an Avro schema of an unknown type",
        {
            "inputs": {
                "flights": NO_TIME
                | {"format": "avro", "value_schema": '{"type": "nope"}', "key_columns": [], "key_function": "none"}
            }
        },
        "inputs.flights.value_schema",
        "can_run",
        "Unknown schema",
    ),
    WrongJob(
        "an Avro schema of an array",
        {"inputs": {"flights": {"format": "avro", "value_schema": '{"type": "array", "items": "long"}'}}},
        "inputs.flights.value_schema",
        "can_run",
        "must be of a record",
    ),
    WrongJob(
        "a message that contains itself",
        {
            "inputs": {
                "flights": NO_TIME
                | {
                    "format": "protobuf",
                    "value_schema": NODES,
                    "protobuf": {"message": "Node"},
                    "key_columns": [],
                    "key_function": "none",
                }
            }
        },
        "inputs.flights.value_schema",
        "can_run",
        "the message Node contains itself (Node.next)",
    ),
    WrongJob(
        "columns that a message does not have",
        {"output": {"value_format": "protobuf", "value_schema": NODES, "protobuf": {"message": "Node"}}},
        "output.value_format",
        "columns_of_protobuf",
        "the message Node has no field for the column dest",
    ),
    WrongJob("no input read", sql("SELECT 1"), "query.sql", "reads_an_input", "does not depend on any"),
    # ---- where rows are
    WrongJob(
        "grouped by another key",
        sql("SELECT carrier, count(*) FROM flights GROUP BY carrier", **SEVERAL, **UPDATE),
        "task_count",
        "stateful_needs_keys",
        "Put a shuffle job before this one",
    ),
    WrongJob(
        "a total over several tasks",
        sql("SELECT count(*) FROM flights", **SEVERAL, **UPDATE),
        "task_count",
        "stateful_needs_keys",
        "set task_count to 1",
    ),
    WrongJob(
        "a join of INT and BIGINT",
        sql("SELECT i.n, b.late FROM ints i JOIN bigints b ON i.n = b.n AND i.time = b.time", **SEVERAL, **BOTH),
        "task_count",
        "stateful_needs_keys",
        "inputs.bigints is keyed by (n bigint) with spark; inputs.ints is keyed by (n int) with spark",
    ),
    WrongJob(
        "a union of INT and BIGINT",
        sql(
            "SELECT n, count(*) FROM (SELECT n FROM ints UNION ALL SELECT n FROM bigints) GROUP BY n",
            **SEVERAL,
            **BOTH,
            **UPDATE,
        ),
        "task_count",
        "stateful_needs_keys",
        "(n int)",
    ),
    WrongJob(
        "Python by another key",
        python("by_another_key", **SEVERAL, **UPDATE),
        "task_count",
        "stateful_needs_keys",
        "GROUP BY in query.python brings rows with equal (carrier) together",
    ),
    WrongJob(
        "Python by lower(key)",
        python("by_lower", **SEVERAL, **UPDATE),
        "task_count",
        "stateful_needs_keys",
        "GROUP BY in query.python brings rows with equal (dest)",
    ),
    WrongJob(
        "Python by a cast of the key",
        python("by_cast", inputs={"flights": BY_INT}, **SEVERAL, **UPDATE),
        "task_count",
        "stateful_needs_keys",
        "(n int)",
    ),
    WrongJob(
        "Python duplicates by another key",
        python("distinct_carriers", **SEVERAL),
        "task_count",
        "stateful_needs_keys",
        "dropDuplicates",
    ),
    WrongJob(
        "Python duplicates within the watermark",
        python("within_watermark", **SEVERAL),
        "task_count",
        "stateful_needs_keys",
        "dropDuplicatesWithinWatermark",
    ),
    WrongJob(
        "Python functions over whole frames",
        python("after_pandas", **SEVERAL, **UPDATE),
        "task_count",
        "stateful_needs_keys",
        "GROUP BY in query.python brings rows with equal (dest)",
    ),
    WrongJob(
        "Python state by another key",
        python("own_state", **SEVERAL),
        "task_count",
        "stateful_needs_keys",
        "applyInPandasWithState",
    ),
    WrongJob(
        "transformWithState by another key",
        python("transformed", state_backend="rocksdb", **SEVERAL),
        "task_count",
        "stateful_needs_keys",
        "transformWithState in query.python brings rows with equal (carrier)",
    ),
    WrongJob(
        "a stream that is no input", python("other_stream", **SEVERAL), "task_count", "reads_other_stream", "make it"
    ),
    # ---- packages
    WrongJob(
        "a column that Python misspelt",
        python("unknown_column"),
        "query.python",
        "unresolved_column",
        "at wrong_queries.py:",
    ),
    WrongJob("Python that raises", python("raises"), "query.python", "python_runs", "KeyError: 'missing'\n  at wrong_"),
    WrongJob("Python without a result", python("nothing"), "query.python", "returns_a_frame", "returned NoneType"),
    WrongJob("Python without a stream", python("static"), "query.python", "reads_an_input", "does not depend on any"),
    WrongJob("a function that is missing", python("absent"), "query.python", "python_imports", "'absent'"),
    WrongJob(
        "a module that is missing",
        python("x") | {"query": {"sql": None, "python": "absent:x"}},
        "query.python",
        "python_imports",
        "No module named 'absent'",
    ),
    WrongJob(
        "a package that is missing",
        python("static") | {"package": {"name": "absent", "version": "3"}},
        "package",
        "package_exists",
        "absent 3 is missing",
    ),
    WrongJob(
        "another package than was meant",
        python("static") | {"package": {"name": "wrong", "version": "1", "digest": f"sha256:{'0' * 64}"}},
        "package.digest",
        "package_digest",
        "has the digest",
    ),
    *OUTPUTS,
]

RIGHT = [
    ("the job itself", {}, []),
    ("grouped by the key, renamed", python("by_its_key", **SEVERAL, **UPDATE), [step("GROUP BY", "to")]),
    ("Python state by its key", python("own_state_by_its_key", **SEVERAL), [step("applyInPandasWithState", "dest")]),
    (
        "transformWithState by its key",
        python("transformed_by_its_key", state_backend="rocksdb", **SEVERAL),
        [step("transformWithState", "dest")],
    ),
    ("the other key in one task", python("by_another_key", **UPDATE), [step("GROUP BY", "carrier", colocated=False)]),
    (
        "windows that slide",
        sql("SELECT window(time, '1 hour', '5 minutes') w, dest, count(*) c FROM flights GROUP BY 1, 2", **SEVERAL),
        [step("GROUP BY", "window", "dest")],
    ),
    (
        "a join of equal types",
        sql(
            "SELECT a.n FROM ints a JOIN others b ON a.n = b.n AND a.time = b.time",
            **SEVERAL,
            inputs={"ints": BY_INT, "others": BY_INT | {"topic": "others"}},
        ),
        [step("JOIN", "n", "time", inputs=("ints", "others"))],
    ),
    (
        "a total in one task",
        sql("SELECT count(*) c FROM flights", **UPDATE),
        [step("an aggregate without GROUP BY", colocated=False)],
    ),
    ("a table", {"output": {"type": "postgres", "table": "fresh", "topic": None}}, []),
    ("a Delta table", {"output": {"type": "delta", "path": "{folder}/delta", "topic": None}}, []),
]
"""Name, change, and the operators that bring rows together."""
