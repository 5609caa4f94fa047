"""Rules for the options of CSV: what Spark refuses when a task reads, and what it takes and then reads otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.config.csv_options import ENCODINGS_OF_LINES, CsvFiles, CsvRecords, CsvValue, is_default
from penstock.config.model import FilesOutput, JobConfig, KafkaOutput
from penstock.config.problems import Problem

_SIGNS = ("delimiter", "quote", "escape", "comment")
_SPARKS_NAMES = (r"\t", r"\r", r"\b", r"\f")
_LAST_OF_SPARK = 0xFFFF


def csv_problems(config: JobConfig) -> Iterator[Problem]:
    """Of all inputs, streams and tables."""
    for name, source in config.inputs.items():
        yield from _problems(f"inputs.{name}", source.format, source.csv)
    for name, stream in config.streams.items():
        yield from _problems(f"streams.{name}", stream.format, stream.csv)
    for name, table in config.tables.items():
        yield from _problems(f"tables.{name}", table.format, table.csv)


def csv_output_problems(config: JobConfig) -> Iterator[Problem]:
    """Of the output."""
    if isinstance(config.output, KafkaOutput):
        yield from _problems("output", config.output.value_format, config.output.csv)
    elif isinstance(config.output, FilesOutput):
        yield from _problems("output", config.output.format, config.output.csv)
        if config.output.format != "csv" and not config.output.header:
            detail = f"output.header is of csv only; the format is {config.output.format}"
            yield Problem("output.header", "header_of_csv", detail)


def _problems(owner: str, file_format: str, csv: CsvRecords | CsvValue) -> Iterator[Problem]:
    field = f"{owner}.csv"
    if file_format != "csv":
        if not is_default(csv):
            detail = f"{field} has options of csv, but the format is {file_format}"
            yield Problem(field, "csv_options_of_csv", detail)
        return
    signs = {name: sign for name in _SIGNS if (sign := getattr(csv, name, None))}
    yield from _characters(field, signs)
    yield from _delimiter(field, csv)
    yield from _different(field, signs)
    if isinstance(csv, CsvFiles) and csv.encoding not in ENCODINGS_OF_LINES and not csv.multi_line:
        detail = f"{field}.encoding is {csv.encoding}, in which Spark finds no ends of lines: set {field}.multi_line"
        yield Problem(f"{field}.encoding", "csv_encoding_of_lines", detail)


def _delimiter(field: str, csv: CsvRecords | CsvValue) -> Iterator[Problem]:
    """Texts that Spark or a reader would take for something else than what they are."""
    if csv.delimiter in _SPARKS_NAMES:
        detail = (
            f"{field}.delimiter is a backslash and the letter {csv.delimiter[1]}. Spark's own options name a tab so; "
            r'give the character itself, "\t" in JSON'
        )
        yield Problem(f"{field}.delimiter", "csv_delimiter_named", detail)
    if csv.delimiter in csv.null_value:
        detail = f"{field}.null_value has the delimiter in it, {csv.delimiter}, which would divide it: choose another"
        yield Problem(f"{field}.null_value", "csv_signs_differ", detail)
    if isinstance(csv, CsvValue) and _overlaps_itself(csv.delimiter):
        detail = (
            f"{field}.delimiter is {csv.delimiter}, which ends as it begins: behind a value that ends so too, readers "
            "would find it too early. Choose another"
        )
        yield Problem(f"{field}.delimiter", "csv_delimiter_overlaps", detail)


def _overlaps_itself(delimiter: str) -> bool:
    return any(delimiter.startswith(delimiter[place:]) for place in range(1, len(delimiter)))


def _characters(field: str, signs: Mapping[str, str]) -> Iterator[Problem]:
    for name, sign in signs.items():
        if "\r" in sign or "\n" in sign:
            yield Problem(f"{field}.{name}", "csv_sign", f"{field}.{name} has a line break in it, which ends a line")
        elif name != "delimiter" and ord(sign) > _LAST_OF_SPARK:
            detail = f"{field}.{name} is {sign}, which Spark takes for two characters: choose another"
            yield Problem(f"{field}.{name}", "csv_sign", detail)


def _different(field: str, signs: Mapping[str, str]) -> Iterator[Problem]:
    for name in ("quote", "escape", "comment"):
        if name in signs and signs[name] in signs["delimiter"]:
            detail = f"{field}.delimiter has the {name} in it, {signs[name]}: choose different ones"
            yield Problem(f"{field}.delimiter", "csv_signs_differ", detail)
    if "comment" in signs and signs["comment"] == signs.get("quote"):
        detail = f"{field}.comment is the quote, {signs['quote']}: choose different ones"
        yield Problem(f"{field}.comment", "csv_signs_differ", detail)
