"""The files that a version of a state store is made of."""

from __future__ import annotations

import json
from io import BytesIO
from zipfile import ZipFile

import pytest

from penstock.control.errors import BrokenCheckpoint
from penstock.spark.savepoint.content import chain, zipped_files


@pytest.mark.parametrize(
    ("names", "version", "needed"),
    [
        (["1.delta", "2.delta", "3.delta"], 2, ["2.delta", "1.delta"]),
        (["1.delta", "2.delta", "2.snapshot", "3.delta"], 3, ["3.delta", "2.snapshot"]),
        (["2.snapshot", "2.delta", "3.delta", "3.snapshot"], 2, ["2.snapshot"]),
        (["1.zip", "2.zip", "SSTs"], 2, ["2.zip"]),
        (["1.zip", "2.changelog", "3.changelog"], 3, ["3.changelog", "2.changelog", "1.zip"]),
        ([], 0, []),
    ],
)
def test_the_newest_whole_content_and_all_changes_since(names: list[str], version: int, needed: list[str]) -> None:
    assert chain(names, version) == tuple(needed)


@pytest.mark.parametrize(
    ("names", "missing"), [(["2.delta", "3.delta"], 1), (["1.snapshot", "3.delta"], 2), (["3.zip"], 4)]
)
def test_a_gap_is_found(names: list[str], missing: int) -> None:
    with pytest.raises(BrokenCheckpoint, match=f"needs version {missing},"):
        chain(names, max(missing, 3))


def test_a_zip_names_its_files() -> None:
    record = {
        "sstFiles": [{"localFileName": "1.sst", "dfsSstFileName": "1-a.sst", "sizeBytes": 5}],
        "logFiles": [{"localFileName": "1.log", "dfsLogFileName": "1-b.log", "sizeBytes": 6}],
        "numKeys": 3,
    }
    assert zipped_files(_zip("metadata", f"v1\n{json.dumps(record)}")) == {"SSTs/1-a.sst": 5, "logs/1-b.log": 6}


@pytest.mark.parametrize("content", [b"no zip", b""])
def test_what_is_no_zip_is_refused(content: bytes) -> None:
    with pytest.raises(BrokenCheckpoint, match="RocksDB"):
        zipped_files(content)


@pytest.mark.parametrize(("name", "text"), [("other", "v1\n{}"), ("metadata", "v1\n{}"), ("metadata", "v1\nx")])
def test_a_zip_without_its_metadata_is_refused(name: str, text: str) -> None:
    with pytest.raises(BrokenCheckpoint, match="RocksDB"):
        zipped_files(_zip(name, text))


def _zip(name: str, text: str) -> bytes:
    buffer = BytesIO()
    with ZipFile(buffer, "w") as archive:
        archive.writestr(name, text)
    return buffer.getvalue()
