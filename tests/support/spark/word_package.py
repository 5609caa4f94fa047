"""A package of the tests: a query that calls its code in Spark's Python workers, and queries that cannot run."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from penstock.spark.packages import pack
from tests.support.spark.environments import packed_with
from tests.support.spark.wheels import machine_code, wheel

PACKAGE = """
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

def shout(word):
    return word.upper()

def loud(session, inputs, args):
    loud_word = F.udf(shout, StringType())("word").alias("word")
    return inputs["events"].where(F.col("n") < args["limit"]).select("n", loud_word)

def broken(session, inputs, args):
    raise KeyError("forgotten")

def number(session, inputs, args):
    return 5
"""
_WITH_WHEELS = (
    PACKAGE.replace("word.upper()", "_escape_inner(upper(word))")
    + """
from quick._speedups import _escape_inner
from upper import upper
"""
)


def packed_words(folder: Path) -> dict[str, str]:
    """The package as a job names it, packed into `folder/packages`."""
    (source := folder / "words").mkdir()
    (source / "words.py").write_text(PACKAGE)
    _, digest = pack(source, "words", "1.0", folder / "packages")
    return {"name": "words", "version": "1.0", "digest": digest}


def packed_words_with_wheels(folder: Path) -> dict[str, str]:
    """The same as `wheelwords`, with wheels that pip resolves without an index. One of them is for this Python and
    platform only: it has machine code."""
    (wheels := folder / "wheels-of-words").mkdir()
    wheel(wheels, "upper", "1.0", {"upper.py": b"def upper(word):\n    return word.upper()\n"})
    name, code = machine_code()
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    own = f"{tag}-{tag}-{sysconfig.get_platform().translate(str.maketrans('-.', '__'))}"
    wheel(wheels, "quick", "1.0", {"quick/__init__.py": b"", f"quick/{name}": code}, tag=own)
    return packed_with(folder, "wheelwords", _WITH_WHEELS, ["upper", "quick"], wheels, PIP_NO_INDEX="1")
