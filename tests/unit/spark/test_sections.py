"""What streams with key groups are called, which sections a job needs, and how far tasks read on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.config.classify import classify
from penstock.config.declare import ChangeKind
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
    stream_part,
)
from penstock.spark.streams import grouped_options, stream_options
from penstock.tasks.spec import TaskSpec

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
    ("positions", "more"),
    [
        ({0: 1, 1: 1}, []),
        ({0: 5, 1: 3}, range(1, 5)),
        ({0: 70, 1: 70}, range(64, 70)),
        ({0: 70, 1: 63}, range(62, 70)),
        ({0: 129, 1: 129}, [64, 128]),
        ({0: 128, 1: 128}, range(64, 128)),
        ({0: 4226, 1: 4226}, [4096, 4160, 4224, 4225]),
    ],
)
def test_which_sections_a_job_needs_to_go_on(positions: dict[int, int], more: Iterable[int]) -> None:
    """The first, the one before each unread one, and those that lead to the files of all."""
    assert needed(positions) == (0, *more)


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


READS_KEYS = {"format": "csv", "value_schema": "a INT, id BIGINT, b INT"}


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"value_schema": "a INT, id INT, b INT"}, "value_schema"),
        ({"value_schema": "id BIGINT, a INT, b INT"}, "value_schema"),
        ({"value_schema": "a STRING, ID bigint, c INT, d INT"}, None),
        ({"header": False}, "header"),
        ({"csv": {"delimiter": ";"}}, "csv"),
        ({"malformed": "null"}, None),
        ({"format": "json", "value_schema": "id BIGINT, a INT"}, None),
        ({"key_columns": [], "value_schema": "id STRING", "header": False}, None),
    ],
)
def test_keys_are_read_in_one_way(change: dict[str, Any], refused: str | None) -> None:
    """By the plan and by who moves positions. Of json a column has no place, and by file a row has no key."""
    before = {**READS_KEYS, **{name: change[name] for name in ("format", "key_columns") if name in change}}
    old, new = reading(**before), reading(**before | change)
    kinds = {change.kind for change in classify(old, new).fields}
    assert kinds == {ChangeKind.RESTART if refused is None else ChangeKind.FORBIDDEN}
    if refused is None:
        require_same_streams(old, new)
        return
    with pytest.raises(BrokenTask, match=rf"streams\.orders\.{refused} reads the key_columns in another way"):
        require_same_streams(old, new)


def test_a_task_is_told_how_keys_were_read(tmp_path: Path) -> None:
    config = reading()
    spec = TaskSpec(
        job="job", index=0, revision=1, generation=3, restarts=0, key_groups=KeyGroupRange(0, 8), config=config
    )

    def keys() -> dict[str, str]:
        part = stream_part(FILES, str(tmp_path), spec, "")
        assert part is not None
        return dict(part.keys)

    assert keys() == {}
    first = f"{tmp_path}/job/streams/g3/orders/0"
    FILES.write(first, b'{"files":[]}')
    assert keys() == {}
    FILES.delete(first)
    FILES.write(first, b'{"files":[],"keys":"{}"}')
    assert keys() == {"orders": "{}"}


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
