"""Python queries of wrong jobs (`tests/integration/test_wrong_jobs.py`); packed, never imported from here."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming import StatefulProcessor


def by_another_key(session: Any, inputs: Any, args: Any) -> Any:
    """The input is keyed by dest."""
    return inputs["flights"].groupBy("carrier").count()


def by_its_key(session: Any, inputs: Any, args: Any) -> Any:
    """Right with several tasks."""
    return inputs["flights"].withColumnRenamed("dest", "to").groupBy("to").count()


def by_lower(session: Any, inputs: Any, args: Any) -> Any:
    """An expression under the name of the key."""
    return inputs["flights"].selectExpr("lower(dest) AS dest").groupBy("dest").count()


def by_cast(session: Any, inputs: Any, args: Any) -> Any:
    """A cast of the key."""
    return inputs["flights"].selectExpr("CAST(n AS BIGINT) AS n").groupBy("n").count()


def distinct_carriers(session: Any, inputs: Any, args: Any) -> Any:
    """State without GROUP BY."""
    return inputs["flights"].select("carrier").dropDuplicates()


def within_watermark(session: Any, inputs: Any, args: Any) -> Any:
    """As `distinct_carriers`."""
    return inputs["flights"].dropDuplicatesWithinWatermark(["carrier"])


def after_pandas(session: Any, inputs: Any, args: Any) -> Any:
    """The function may have changed the key."""
    flights = inputs["flights"].select("dest", "delay")
    return flights.mapInPandas(lambda frames: frames, flights.schema).groupBy("dest").count()


def own_state(session: Any, inputs: Any, args: Any) -> Any:
    """State of its own, by another column than the key."""
    return _counted(inputs["flights"].groupBy("carrier"))


def own_state_by_its_key(session: Any, inputs: Any, args: Any) -> Any:
    """Right with several tasks."""
    return _counted(inputs["flights"].groupBy("dest"))


def _counted(groups: Any) -> Any:
    def count(key: Any, frames: Any, state: Any) -> Any:
        yield from frames

    return groups.applyInPandasWithState(count, "n INT", "n INT", "append", "NoTimeout")


def transformed(session: Any, inputs: Any, args: Any) -> Any:
    """transformWithState by another column than the key."""
    return _processed(inputs["flights"].groupBy("carrier"))


def transformed_by_its_key(session: Any, inputs: Any, args: Any) -> Any:
    """Right with several tasks."""
    return _processed(inputs["flights"].groupBy("dest"))


class Nothing(StatefulProcessor):
    """Passes the rows on."""

    def init(self, handle: Any) -> None:
        """There is no state."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        """The rows."""
        yield from rows

    def close(self) -> None:
        """There is nothing to close."""


def _processed(groups: Any) -> Any:
    return groups.transformWithStateInPandas(Nothing(), "n INT", "append", "None")


def other_stream(session: Any, inputs: Any, args: Any) -> Any:
    """Reads a stream that is no input."""
    own = session.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS dest")
    return inputs["flights"].select("dest").union(own)


def unknown_column(session: Any, inputs: Any, args: Any) -> Any:
    """Refused by Spark, in a line of this file."""
    return inputs["flights"].select("nowhere")


def raises(session: Any, inputs: Any, args: Any) -> Any:
    """Fails by itself."""
    return args["missing"]


def nothing(session: Any, inputs: Any, args: Any) -> Any:
    """Returns no frame."""


def static(session: Any, inputs: Any, args: Any) -> Any:
    """Reads no stream."""
    return session.range(3)


def unreachable(session, inputs, args):
    raise ConnectionRefusedError("the registry does not answer")
