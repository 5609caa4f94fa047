"""The options of CSV as Spark takes them. Pure.

Only those that differ from Spark's defaults are there, and the models have these. One map for all that parse a text, or
else the text of a value would not be what the query gets.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.config.csv_options import CsvFiles, CsvRecords, CsvValue
from penstock.spark.inputs.misread import text_of


def options_of(csv: CsvRecords | CsvValue) -> dict[str, str]:
    """Of files that Spark reads or writes, and of values that it writes."""
    return _options(csv, type(csv).model_fields)


def record_options(csv: CsvRecords) -> dict[str, str]:
    """Of one text, also of a line of a file: what divides it into values."""
    return _options(csv, CsvRecords.model_fields)


def lines_of(csv: CsvFiles) -> str:
    """The condition in Spark's SQL by which a line of a file is no blank one, which Spark passes over, and no comment.
    Tabs are blanks, also where they are the delimiter."""
    has_a_sign = r"value RLIKE '[^\\x00-\\x20]'"
    return has_a_sign if csv.comment is None else f"{has_a_sign} AND NOT startswith(value, {text_of(csv.comment)})"


def _options(csv: CsvRecords | CsvValue, names: Iterable[str]) -> dict[str, str]:
    fields = type(csv).model_fields
    given = {name: getattr(csv, name) for name in names}
    found = {_name(name): _text(value) for name, value in given.items() if value != fields[name].default}
    if csv.delimiter != fields["delimiter"].default:
        # Spark reads `\t` in it, and so on.
        found["delimiter"] = csv.delimiter.replace("\\", r"\\")
    if isinstance(csv, CsvValue) and csv.empty_value is None and csv.quote != fields["quote"].default:
        # Spark's own default has its own quotes.
        found["emptyValue"] = csv.quote * 2
    return found


def _name(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(each.capitalize() for each in others)


def _text(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else value
