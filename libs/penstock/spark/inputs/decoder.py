"""What decodes the values of an input by a Java class of this project."""

from __future__ import annotations

from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as JvmColumn

from penstock.control.errors import BrokenTask
from penstock.spark.columns import java_of


class Decoder(NamedTuple):
    """Decodes the values of an input; all its columns agree about a record of one batch.

    `java`: its `io.penstock.sources.RecordDecoder`.
    """

    java: Any

    def decoded(self) -> Column:
        """The value as a struct; null where it is malformed."""
        return JvmColumn(self.java.decoded(java_of(F.col("value"))))

    def reasons(self) -> Column:
        """Why the value is malformed, in words."""
        return JvmColumn(self.java.reasons(java_of(F.col("value"))))

    def kind(self) -> str:
        """Spark's name for what a value is. Raises BrokenTask for a schema that gives no columns."""
        try:
            return str(self.java.dataType().typeName())
        except Py4JJavaError as error:
            raise BrokenTask(f"value_schema: {error.java_exception.getMessage()}") from error
        except IllegalArgumentException as error:
            raise BrokenTask(f"value_schema: {error}") from error
