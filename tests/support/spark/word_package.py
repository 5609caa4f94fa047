"""A package of the tests: a query that calls its libraries in Spark's Python workers, and queries that cannot run."""

from __future__ import annotations

from pathlib import Path

from penstock.spark.dependencies import entries
from penstock.spark.packages import pack
from tests.support.spark.wheels import machine_code

PACKAGE = """
from pyspark.sql import functions as F
from pyspark.sql.types import StringType
from quick._speedups import _escape_inner
from upper import upper

def shout(word):
    return _escape_inner(upper(word))

def loud(session, inputs, args):
    loud_word = F.udf(shout, StringType())("word").alias("word")
    return inputs["events"].where(F.col("n") < args["limit"]).select("n", loud_word)

def broken(session, inputs, args):
    raise KeyError("forgotten")

def number(session, inputs, args):
    return 5
"""


def packed_words(folder: Path) -> dict[str, str]:
    """The package as a job names it, packed into `folder/packages`. One of its libraries is machine code."""
    source, site = folder / "words", folder / "site"
    source.mkdir()
    (source / "words.py").write_text(PACKAGE)
    (site / "quick").mkdir(parents=True)
    (site / "upper.py").write_text("def upper(word):\n    return word.upper()\n")
    name, code = machine_code()
    (site / "quick" / name).write_bytes(code)
    _, digest = pack(source, "words", "1.0", folder / "packages", entries(site))
    return {"name": "words", "version": "1.0", "digest": digest}
