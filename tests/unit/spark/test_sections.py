"""What streams with key groups are called, which sections a job needs, and how far tasks read on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.config.keygroups import KeyGroupRange
from penstock.config.stream import Stream
from penstock.config.stream_names import StreamLog, is_stream_log, stream_log
from penstock.config.validate import check_merged
from penstock.control.errors import BrokenCheckpoint, BrokenTask
from penstock.spark.files import LocalFiles
from penstock.spark.measure.progress import task_progress
from penstock.spark.redistribute.offsets import SourceOffsets, line_of, merged, sliced, source_of
from penstock.spark.redistribute.reads import Read, reads_of
from penstock.spark.sections import (
    StreamPart,
    adopt,
    beginning,
    begun_in,
    forget_sections,
    furthest_sections,
    needed,
    noted_begin,
    require_same_streams,
)
from penstock.spark.streams import grouped_options, stream_options

NAME = "stream:orders#3"
LINE = '{"stream:orders#3":{"0":5,"1":5,"2":4}}'
FILES = LocalFiles()


def test_a_stream_has_the_name_of_no_topic() -> None:
    assert StreamLog("orders", 3).name == NAME
    assert stream_log(NAME) == ("orders", 3)
    assert [is_stream_log(name) for name in (NAME, "stream", "orders@eu")] == [True, False, False]
    with pytest.raises(ValueError, match="not the name of a stream"):
        stream_log("orders")


def test_positions_move_by_key_group() -> None:
    found = source_of(LINE)
    assert found == SourceOffsets({NAME: {0: 5, 1: 5, 2: 4}})
    parts = [sliced([found], KeyGroupRange(0, 1)), sliced([found], KeyGroupRange(1, 3))]
    assert [line_of(source) for source in merged(parts, 3)] == [LINE]


def test_a_task_that_has_not_begun_reads_what_the_others_read() -> None:
    known, none = source_of(LINE), None
    assert reads_of([[known], [none], []], {}, begun=True) == (Read(NAME, frozenset({NAME})),)
    assert beginning(NAME, KeyGroupRange(3, 5)) == SourceOffsets({NAME: {3: 1, 4: 1}})
    with pytest.raises(BrokenCheckpoint, match="source 0 of the query"):
        reads_of([[known], [source_of(LINE.replace("#3", "#4"))]], {}, begun=True)
    with pytest.raises(BrokenCheckpoint, match="source 0 of the query reads no topic"):
        reads_of([[none]], {}, begun=True)


def test_tasks_read_on_to_the_section_of_the_furthest() -> None:
    tasks = [[source_of(LINE)], [source_of('{"stream:orders#3":{"3":7}}')], [source_of('{"stream:more#3":{"3":2}}')]]
    assert furthest_sections(tasks) == {NAME: dict.fromkeys(range(4), 7), "stream:more#3": {3: 2}}


@pytest.mark.parametrize(
    ("positions", "first", "end"),
    [
        ({0: 1, 1: 1}, 0, 1),
        ({0: 5, 1: 3}, 0, 5),
        ({0: 70, 1: 70}, 64, 70),
        ({0: 70, 1: 63}, 62, 70),
        ({0: 129, 1: 129}, 128, 129),
        ({0: 128, 1: 128}, 64, 128),
    ],
)
def test_which_sections_a_job_needs_to_go_on(positions: dict[int, int], first: int, end: int) -> None:
    """The one before each unread one, and all from the last that knows of the files before it."""
    assert needed(positions) == range(first, end)


def test_another_job_gets_the_sections_that_it_needs(tmp_path: Path) -> None:
    """Again and again, also over half of a copy, and not where some are missing."""
    for number in range(4):
        FILES.write(f"{tmp_path}/old/g3/orders/{number}", b"%d" % number)
    folders = f"{tmp_path}/old", f"{tmp_path}/new"
    FILES.write(f"{tmp_path}/new/g9/orders/1", b"")
    for _ in range(2):
        (adopted,) = adopt(FILES, [source_of('{"stream:orders#3":{"0":3,"1":2}}')], *folders, generation=9)
    assert adopted == SourceOffsets({"stream:orders#9": {0: 3, 1: 2}})
    copied = {name: FILES.read(f"{tmp_path}/new/g9/orders/{name}") for name in FILES.names(f"{tmp_path}/new/g9/orders")}
    assert copied == {"0": b"0", "1": b"1", "2": b"2"}
    with pytest.raises(BrokenTask, match=r"streams\.orders: the sections 4 to 4 .* deleted with the job"):
        adopt(FILES, [source_of('{"stream:orders#3":{"0":5}}')], *folders, generation=10)


def test_sections_of_a_forgotten_job_go_and_those_of_its_successor_stay(tmp_path: Path) -> None:
    for generation in (1, 4, 5):
        FILES.write(f"{tmp_path}/job/streams/g{generation}/orders/1", b"")
    forget_sections(FILES, str(tmp_path), "job", 4)
    assert FILES.names(f"{tmp_path}/job/streams") == ["g5"]


def test_a_checkpoint_says_which_sections_its_offsets_count_in(tmp_path: Path) -> None:
    """By its note, before the first batch, or by its offsets."""
    assert begun_in(str(tmp_path / "none"), FILES) == {}
    FILES.write(f"{tmp_path}/noted/sources/1/0", b"\0v1\n" + LINE.encode())
    assert begun_in(f"{tmp_path}/noted", FILES) == {"orders": 3}
    assert noted_begin(f"{tmp_path}/noted", 1, FILES) == source_of(LINE)
    assert noted_begin(f"{tmp_path}/noted", 0, FILES) is None
    FILES.write(f"{tmp_path}/run/offsets/4", f"v1\n{{}}\n-\n{LINE}".encode())
    FILES.write(f"{tmp_path}/run/commits/4", b"")
    FILES.write(f"{tmp_path}/run/sources/0/0", b"v1\n{}")
    assert begun_in(f"{tmp_path}/run", FILES) == {"orders": 3}


def reading(**changes: Any) -> Any:
    stream = {"format": "delta", "path": "file:/in", "key_groups": 8, "key_columns": ["id"], **changes}
    output = {"type": "delta", "path": "file:/out"}
    return check_merged({"query": {"sql": "SELECT * FROM orders"}, "streams": {"orders": stream}, "output": output})


@pytest.mark.parametrize("change", [{"path": "file:/other"}, {"key_columns": ["k"]}, {"key_groups": 16}])
def test_positions_are_of_one_stream(change: dict[str, Any]) -> None:
    require_same_streams(reading(), reading(max_files_per_batch=5))
    (leaf,) = change
    with pytest.raises(BrokenTask, match=rf"streams\.orders\.{leaf} differs"):
        require_same_streams(reading(), reading(**change))


def test_what_a_task_asks_of_its_source() -> None:
    stream = Stream(format="json", path="/in", key_groups=8, key_columns=("id",))
    part = StreamPart("/checkpoints/job/streams", 7, KeyGroupRange(2, 5), {"orders": 3}, {NAME: {2: 9, 3: 9}})
    assert grouped_options("orders", stream, part) == {
        "penstock.format": "json",
        "penstock.name": NAME,
        "penstock.log": "/checkpoints/job/streams/g3/orders",
        "penstock.keyGroups": "2-5",
        "penstock.keyGroupCount": "8",
        "penstock.keyColumns": '["id"]',
        "penstock.stopAt": "9",
    }
    assert grouped_options("more", stream, part)["penstock.name"] == "stream:more#7"
    assert {"maxFilesPerTrigger", "maxBytesPerTrigger"} <= stream_options(stream, 5).keys()


def test_sections_are_no_records() -> None:
    source = {"startOffset": LINE, "endOffset": LINE, "latestOffset": LINE, "numInputRows": 4}
    progress = task_progress({"batchId": 1, "sources": [source]})
    assert (progress.backlog_records, progress.key_group_backlogs, progress.offsets) == (None, None, {})
