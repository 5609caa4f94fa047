"""Things that are searched for often in a shop, whatever way they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import inflection
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import pandas_udf
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle


def thing(terms: pd.Series) -> pd.Series:
    """`Red Apples` and `red-apple` are both `red_apple`."""
    return terms.map(lambda term: inflection.singularize(inflection.underscore(inflection.parameterize(term))))


class Often(StatefulProcessor):
    """Keeps how often a thing was searched for in a shop, and tells of it once it was often."""

    def __init__(self, searches: int) -> None:
        self._searches = searches

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "searches BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        before = self._count.get()[0] if self._count.exists() else 0
        after = before + sum(len(frame) for frame in rows)
        self._count.update((after,))
        if before < self._searches <= after:
            yield pd.DataFrame({"shop": [key[0]], "thing": [key[1]]})

    def close(self) -> None:
        pass


def trends(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """The job's query: see `query.python` in job.json."""
    searches = inputs["searches"].withColumn("thing", pandas_udf(thing, "string")("term")).groupBy("shop", "thing")
    return searches.transformWithStateInPandas(Often(args["searches"]), "shop STRING, thing STRING", "Append", "None")
