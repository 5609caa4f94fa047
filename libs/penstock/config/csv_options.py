"""How the lines of CSV are written: in the records of a topic, in files that a job reads, and in those that it writes.

The fields have the names of Spark's options, in this project's spelling, and Spark's defaults.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.config.declare import DECLARED_BY_USER, ChangeKind, DeclaredModel, declare

RESTART, RESCALE = ChangeKind.RESTART, ChangeKind.RESCALE
Encoding = Literal["UTF-8", "ISO-8859-1", "UTF-16", "UTF-16BE", "UTF-16LE", "UTF-32"]
ENCODINGS_OF_LINES = ("UTF-8", "ISO-8859-1")
"""Those in which a line ends with the one byte by which Spark divides a file."""


def is_default(options: DeclaredModel) -> bool:
    """Whether all is as Spark has it. Such options are left out: the release before does not know them."""
    return options == type(options)()


class CsvRecords(DeclaredModel):
    """Of csv: how a record is divided into values, and which values are null."""

    delimiter: str = Field(",", min_length=1, max_length=10, **declare(RESTART, DECLARED_BY_USER))
    """Of csv: what stands between two values, such as `;` or `\\t` (a tab); one or more characters."""
    quote: str = Field('"', max_length=1, **declare(RESTART, DECLARED_BY_USER))
    """Of csv: the character around a value that has the delimiter in it. An empty text: there is none."""
    escape: str = Field("\\", min_length=1, max_length=1, **declare(RESTART, DECLARED_BY_USER))
    """Of csv: the character before a quote that belongs to a quoted value. Default: a backslash, as in Spark.
    For programs that double the quote (RFC 4180, most of them) give the quote, in JSON `{"escape": "\\""}`: else their
    values are misread."""
    null_value: str = Field("", max_length=100, **declare(RESTART, DECLARED_BY_USER))
    """Of csv: the text that stands for null, such as `NULL` or `\\N`. A value without any character is null, too."""
    empty_value: str = Field("", max_length=100, **declare(RESTART, DECLARED_BY_USER))
    """Of csv: the text that two quotes with nothing between them stand for. As by default it is that of null, they are
    null, too; with another null_value they are an empty text."""
    ignore_leading_white_space: bool = Field(False, **declare(RESTART, DECLARED_BY_USER))
    """Of csv: leave out blanks before a value."""
    ignore_trailing_white_space: bool = Field(False, **declare(RESTART, DECLARED_BY_USER))
    """Of csv: leave out blanks after a value."""


class CsvFiles(CsvRecords):
    """Of csv: the same, and what only files have."""

    comment: str | None = Field(None, min_length=1, max_length=1, **declare(RESTART, DECLARED_BY_USER))
    """Of csv: lines that begin with this character are passed over. Default: none are."""
    encoding: Encoding = Field("UTF-8", **declare(RESTART, DECLARED_BY_USER))
    """Of csv: how characters are bytes. UTF-16 and UTF-32 need multi_line."""
    multi_line: bool = Field(False, **declare(RESTART, DECLARED_BY_USER))
    """Of csv: a quoted value may have line breaks in it. One thread then reads a whole file."""


class CsvValue(DeclaredModel):
    """Of csv: how a row becomes a record. Two forms in one folder of files could not be read, so there a change needs
    another `path`."""

    delimiter: str = Field(",", min_length=1, max_length=10, **declare(RESCALE, DECLARED_BY_USER))
    """Of csv: what stands between two values, such as `;` or `\\t` (a tab). Of files a change needs another
    `path`."""
    quote: str = Field('"', min_length=1, max_length=1, **declare(RESCALE, DECLARED_BY_USER))
    """Of csv: the character around a value that has the delimiter, the quote or a line break in it."""
    escape: str = Field("\\", min_length=1, max_length=1, **declare(RESCALE, DECLARED_BY_USER))
    """Of csv: the character before a quote in a quoted value. Default: a backslash, as in Spark. For
    readers that expect doubled quotes (RFC 4180, most of them) give the quote, in JSON `{"escape": "\\""}`: else they
    misread such values."""
    null_value: str = Field("", max_length=100, **declare(RESCALE, DECLARED_BY_USER))
    """Of csv: what is written for null. A text of the same characters is written in the same way."""
    empty_value: str | None = Field(None, max_length=100, **declare(RESCALE, DECLARED_BY_USER))
    """Of csv: what is written for an empty text. Default: two quotes."""
    ignore_leading_white_space: bool = Field(True, **declare(RESCALE, DECLARED_BY_USER))
    """Of csv: leave out blanks at the beginning of a value, as Spark does by default."""
    ignore_trailing_white_space: bool = Field(True, **declare(RESCALE, DECLARED_BY_USER))
    """Of csv: leave out blanks at the end of a value, as Spark does by default."""


class CsvOutput(CsvValue):
    """Of csv: how rows become lines, and lines files."""

    compression: Literal["none", "gzip", "bzip2", "deflate"] = Field("none", **declare(RESTART, DECLARED_BY_USER))
    """Of csv: how files are compressed; the end of their names says it."""
