"""A package of the tests: a query that calls its libraries in Spark's Python workers, and queries that cannot run."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from penstock.spark.dependencies import entries, resolved
from penstock.spark.packages import pack
from tests.support.spark.wheels import machine_code, wheel

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
    """The package as a job names it, packed into `folder/packages`, with wheels that pip resolves. One of them is for
    this Python and platform only: it has machine code."""
    source, wheels = folder / "words", folder / "wheels"
    source.mkdir()
    wheels.mkdir()
    (source / "words.py").write_text(PACKAGE)
    (folder / "requirements.txt").write_text("upper\nquick\n")
    wheel(wheels, "upper", "1.0", {"upper.py": b"def upper(word):\n    return word.upper()\n"})
    name, code = machine_code()
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    own = f"{tag}-{tag}-{sysconfig.get_platform().translate(str.maketrans('-.', '__'))}"
    wheel(wheels, "quick", "1.0", {"quick/__init__.py": b"", f"quick/{name}": code}, tag=own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(wheels))
        with resolved(folder / "requirements.txt") as site:
            _, digest = pack(source, "words", "1.0", folder / "packages", entries(site))
    return {"name": "words", "version": "1.0", "digest": digest}
