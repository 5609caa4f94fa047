"""The columns of an input, read from its format and `value_schema`.

A `json` or `csv` schema is Spark DDL: `name TYPE, ...`. sqlglot's tokens of it are read here by a small grammar, since
sqlglot's own parser of types refuses names that Spark takes (`from INT`). What follows a type (`NOT NULL`, `COMMENT`,
a precision) is left to Spark.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Literal, NamedTuple

from sqlglot import Dialect, Token, TokenType
from sqlglot.errors import TokenError

from penstock.config.descriptor_set import DescriptorSetError, UnknownMessage, field_names
from penstock.config.model import Input

KAFKA_COLUMNS = frozenset({"key", "value", "topic", "partition", "offset", "timestamp", "timestamptype", "headers"})
_SIMPLE_TYPES = {
    "boolean", "void", "variant", "geometry", "geography",
    "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long",
    "float", "real", "double", "decimal", "dec", "numeric",
    "string", "char", "character", "varchar", "binary",
    "date", "time", "timestamp", "timestamp_ntz", "timestamp_ltz", "interval",
}  # fmt: skip
_NESTED_TYPES = ("struct", "array", "map")
_DIALECT = Dialect.get_or_raise("spark")


class SchemaError(ValueError):
    """A schema that Spark cannot read; the text names the column and what is wrong with it."""


class _Word(NamedTuple):
    text: str
    kind: Literal["name", "sign", "string", "end"]
    """A name is an identifier or a keyword; Spark lets a column have the name of a keyword."""

    def is_sign(self, *signs: str) -> bool:
        return self.kind == "sign" and self.text in signs


_END = _Word("the end", "end")


def column_names(source: Input) -> frozenset[str] | None:
    """The lower case names of the columns that a query sees; None when they are unknown.

    Raises SchemaError when the schema cannot be read.
    """
    if source.format == "raw":
        return KAFKA_COLUMNS
    if source.value_schema is None:
        return None
    if source.format == "avro":
        return _avro_names(source.value_schema)
    if source.format == "protobuf":
        return _protobuf_names(source.value_schema, source.protobuf.message)
    names = ddl_names(source.value_schema)
    return None if names is None else frozenset(name.lower() for name in names)


def spelling_of(source: Input, column: str) -> str | None:
    """The name of a column as the DDL of a `json` or `csv` input writes it, whatever case `column` is in.

    None when there is no such column, or the names are unknown.
    """
    if source.value_schema is None or source.format not in ("json", "csv"):
        return None
    wanted = column.strip("`").lower()
    try:
        names = ddl_names(source.value_schema) or ()
    except SchemaError:
        return None
    return next((name for name in names if name.lower() == wanted), None)


@lru_cache(maxsize=1024)
def ddl_names(text: str) -> tuple[str, ...] | None:
    """The names of the columns as the DDL writes them; None when it is a schema in JSON or one whole type.

    Raises SchemaError.
    """
    columns = ddl_columns(text)
    return None if columns is None else tuple(column.name for column in columns)


class DdlColumn(NamedTuple):
    """A column as DDL writes it. `type`: its words in lower case, with what follows, such as `not null`."""

    name: str
    type: str


@lru_cache(maxsize=1024)
def ddl_columns(text: str) -> tuple[DdlColumn, ...] | None:
    """The columns of a DDL; None when it is a schema in JSON or one whole type. Raises SchemaError."""
    if text.lstrip().startswith("{"):
        return None
    try:
        words = _words(text)
    except TokenError as error:
        raise SchemaError("a quote is not closed") from error
    if len(words) > 1 and words[0].text.lower() in _NESTED_TYPES and words[1].is_sign("<"):
        return None
    reader = _Reader(words)
    try:
        columns = reader.columns()
    except RecursionError as error:
        raise SchemaError("it is nested too deeply") from error
    if reader.next is not _END:
        raise SchemaError("a > closes nothing")
    return columns


def _protobuf_names(text: str, message: str | None) -> frozenset[str] | None:
    try:
        return frozenset(name.lower() for name in field_names(text, message)) if message is not None else None
    except (DescriptorSetError, UnknownMessage):
        return None


@lru_cache(maxsize=1024)
def _avro_names(text: str) -> frozenset[str] | None:
    schema = json.loads(text)
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list):
        return None
    return frozenset(str(field["name"]).lower() for field in fields if isinstance(field, dict) and "name" in field)


def _words(text: str) -> list[_Word]:
    """sqlglot's tokens, with `<>` and `>>` as two words each."""
    return [word for token in _DIALECT.tokenize(text) for word in _words_of(token)]


def _words_of(token: Token) -> list[_Word]:
    if token.token_type is TokenType.STRING:
        return [_Word(token.text, "string")]
    if token.token_type is TokenType.IDENTIFIER or token.text.replace("_", "a").isalnum():
        return [_Word(token.text, "name")]
    signs = token.text if set(token.text) <= {"<", ">"} else (token.text,)
    return [_Word(sign, "sign") for sign in signs]


class _Reader:
    """Reads columns and types from words, from the first to the last."""

    def __init__(self, words: list[_Word]) -> None:
        self._words = words
        self._at = 0

    @property
    def next(self) -> _Word:
        return self._words[self._at] if self._at < len(self._words) else _END

    def columns(self) -> tuple[DdlColumn, ...]:
        """`name [:] type ..., ...`, up to a closing `>` or the end."""
        columns = [self._column()]
        while self._takes(","):
            columns.append(self._column())
        return tuple(columns)

    def _column(self) -> DdlColumn:
        name = self._name("the name of a column is missing")
        self._takes(":")
        begin = self._at
        self._type(name)
        return DdlColumn(name, " ".join(word.text.lower() for word in self._words[begin : self._at]))

    def _type(self, column: str) -> None:
        kind = self._name(f"column {column}: a type is missing").lower()
        if kind in _NESTED_TYPES:
            self._needs("<", f"column {column}: {kind} needs its types in <>")
            self._inner_types(column, kind)
            self._needs(">", f"column {column}: the < of {kind} is not closed")
        elif kind not in _SIMPLE_TYPES:
            raise SchemaError(f"column {column}: Spark has no type {kind}")
        self._skip_to_the_end_of_the_type()

    def _inner_types(self, column: str, kind: str) -> None:
        if kind != "struct":
            self._type(column)
        elif not self.next.is_sign(">"):
            self.columns()
        if kind == "map":
            self._needs(",", f"column {column}: map needs a key type and a value type")
            self._type(column)

    def _name(self, missing: str) -> str:
        name = self.next
        if name.kind != "name":
            raise SchemaError(f"{missing} before {name.text}")
        self._at += 1
        return name.text

    def _skip_to_the_end_of_the_type(self) -> None:
        """Leaves precisions, NOT NULL, COMMENT and the like to Spark."""
        depth = 0
        while self.next is not _END and (depth or not self.next.is_sign(",", ">")):
            depth += self.next.is_sign("(") - self.next.is_sign(")")
            self._at += 1

    def _needs(self, sign: str, otherwise: str) -> None:
        if not self._takes(sign):
            raise SchemaError(otherwise)

    def _takes(self, sign: str) -> bool:
        taken = self.next.is_sign(sign)
        self._at += taken
        return taken
