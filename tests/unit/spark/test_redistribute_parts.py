"""The pure parts of a redistribution: offsets, levels, key places, operator metadata, comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import FilesOutput, Input, JobConfig
from penstock.control.errors import BrokenCheckpoint, BrokenTask, Fenced
from penstock.spark.checkpoint import commit_text, offsets_text, parse_offsets
from penstock.spark.fence import Mark, Token, next_token
from penstock.spark.files import LOCAL_FILES
from penstock.spark.redistribute import new
from penstock.spark.redistribute.keys import KeyedOperator, KeyFunction, key_functions, require_operators
from penstock.spark.redistribute.level import Span, common_watermark, cuts, furthest, lagging, offsets_left
from penstock.spark.redistribute.move import require_same
from penstock.spark.redistribute.new import NewGeneration, NewTask
from penstock.spark.redistribute.offsets import (
    SourceOffsets,
    initial_offsets,
    line_of,
    merged,
    parse_line,
    sliced,
)
from penstock.spark.redistribute.old import late
from penstock.spark.redistribute.positions import task_specs, trace
from penstock.spark.redistribute.stores import StateStoreInfo, metadata_for, parse_operator
from penstock.spark.sinks.folder_owner import LOG, QUERY, bind
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import Layout
from penstock.tasks.spec import TaskSpec
from tests.support.store.jobs import make_config

STORE = StateStoreInfo(0, "stateStoreSave", "default", 0)


def source(topic: str, **offsets: int) -> SourceOffsets:
    return SourceOffsets({topic: {int(name[1:]): offset for name, offset in offsets.items()}})


def both(*sources: SourceOffsets) -> SourceOffsets:
    """One source of several topics."""
    return SourceOffsets({topic: offsets for each in sources for topic, offsets in each.topics.items()})


def test_a_line_of_offsets_comes_back_as_it_was() -> None:
    line = '{"t":{"2":7,"10":0}}'
    assert parse_line(line) == source("t", p2=7, p10=0)
    assert line_of(parse_line(line)) == line
    several = '{"t":{"2":7},"u":{"2":1}}'
    assert parse_line(several) == both(source("u", p2=1), source("t", p2=7))
    assert line_of(parse_line(several)) == several


@pytest.mark.parametrize("line", ["", "7", '{"t":{"x":1}}', '{"t":[1]}', '{"t":7}'])
def test_a_line_that_is_not_of_topics_is_an_error(line: str) -> None:
    with pytest.raises(BrokenCheckpoint):
        parse_line(line)


def test_offsets_of_several_sources_are_merged_and_sliced_by_key_group() -> None:
    tasks = [
        [source("left", p0=1, p1=2), source("right", p0=5, p1=6)],
        [source("left", p2=3), source("right", p2=7)],
    ]
    whole = merged(tasks, 3)
    assert whole == (source("left", p0=1, p1=2, p2=3), source("right", p0=5, p1=6, p2=7))
    assert sliced(whole, KeyGroupRange(1, 3)) == (source("left", p1=2, p2=3), source("right", p1=6, p2=7))


@pytest.mark.parametrize(
    "tasks",
    [
        pytest.param([[source("t", p0=1)], [source("t", p2=1)]], id="a key group is missing"),
        pytest.param([[source("t", p0=1, p1=1)], [source("t", p1=1, p2=1)]], id="a key group is there twice"),
        pytest.param([[source("t", p0=1, p1=1, p2=1, p3=1)]], id="a key group too many"),
        pytest.param([[source("t", p0=1)], [source("u", p1=1, p2=1)]], id="other topics"),
        pytest.param(
            [[both(source("t", p0=1), source("u", p0=1))], [source("t", p1=1, p2=1)]], id="a topic that one has only"
        ),
    ],
)
def test_key_groups_are_covered_exactly_once(tasks: list[list[SourceOffsets]]) -> None:
    with pytest.raises(BrokenCheckpoint):
        merged(tasks, 3)


@pytest.mark.parametrize(
    ("standings", "behind"),
    [
        pytest.param([(5, False), (5, False)], (), id="level"),
        pytest.param([(5, False), (3, False), (0, False)], (1, 2), id="two lag"),
        pytest.param([(5, False), (3, True)], (), id="one lags and has nothing to read"),
        pytest.param([(0, False), (0, False)], (), id="no watermark"),
    ],
)
def test_who_lags_reads_on(standings: list[tuple[int, bool]], behind: tuple[int, ...]) -> None:
    assert lagging([watermark for watermark, _ in standings], lambda index: standings[index][1]) == behind


def test_tasks_without_state_are_as_far_as_the_last_of_them() -> None:
    assert common_watermark([5, 3, 9], has_state=True) == 9
    assert common_watermark([5, 3, 9], has_state=False) == 3
    assert common_watermark([5, 0], has_state=False) == 0


def test_all_is_read_when_no_key_group_of_any_source_is_behind() -> None:
    sources = (source("a", p0=4), source("b", p0=9, p1=1))
    assert offsets_left(sources, {"a": {0: 4, 1: 99}, "b": {0: 8, 1: 1}}) == 0
    assert offsets_left(sources, {"a": {0: 4}, "b": {0: 8, 1: 2}}) == 1


def test_what_is_left_is_counted_over_all_key_groups_and_never_below_nothing() -> None:
    sources = (source("a", p0=4, p1=7), source("b", p0=9))
    assert offsets_left(sources, {"a": {0: 10, 1: 2}, "b": {0: 10}}) == 7


def test_of_several_sources_of_one_topic_the_furthest_counts() -> None:
    tasks = [(source("a", p0=4), source("b", p0=9), source("a", p0=6)), (source("a", p1=1), source("b", p1=2))]
    assert furthest(tasks, "a") == {0: 6, 1: 1}


@pytest.mark.parametrize(
    ("begins", "ends", "rows_beyond", "expected"),
    [
        pytest.param({0: 5}, {0: 5}, {}, {0: 5}, id="nothing left"),
        pytest.param({0: 9}, {0: 5}, {}, {0: 9}, id="read beyond the end that is known"),
        pytest.param({0: 0}, {0: 90}, {0: 7}, {0: 7}, id="near"),
        pytest.param({0: 7}, {0: 90}, {0: 7}, {0: 7}, id="at once"),
        pytest.param({0: 0}, {0: 10**6}, {0: 700_000}, {0: 700_000}, id="far"),
        pytest.param({0: 0}, {0: 10**6}, {}, {0: 10**6}, id="none before the end"),
        pytest.param(
            {0: 0, 1: 3, 2: 50_000}, {0: 9, 1: 9, 2: 10**6}, {1: 4, 2: 80_000}, {0: 9, 1: 4, 2: 80_000}, id="3"
        ),
    ],
)
def test_the_cut_of_a_key_group_is_its_first_row_beyond(
    begins: dict[int, int], ends: dict[int, int], rows_beyond: dict[int, int], expected: dict[int, int]
) -> None:
    asked: dict[int, int] = {}

    def search(spans: Mapping[int, Span]) -> dict[int, int]:
        for group, (lo, until) in spans.items():
            assert begins[group] <= lo < until <= ends[group]
            asked[group] = until
        return {g: rows_beyond[g] for g, (lo, hi) in spans.items() if g in rows_beyond and lo <= rows_beyond[g] < hi}

    assert cuts(begins, ends, search) == expected
    assert all(until <= max(begins[group] + 20_000, 6 * expected[group]) for group, until in asked.items())


def test_what_a_source_notes_of_its_beginning_has_a_plain_name_in_a_folder_of_its_cluster(tmp_path: Path) -> None:
    """Two inputs of one topic name: each finds its own note again."""
    sources = (source("orders@eu", p0=4), source("orders", p0=9))
    for number, each in enumerate(sources):
        path, content = initial_offsets(number, each)
        file = tmp_path / path
        file.parent.mkdir(parents=True)
        file.write_text(content)
    assert (tmp_path / "sources" / "0@eu" / "0").read_text() == '\0v1\n{"orders":{"0":4}}'
    assert trace(str(tmp_path), LOCAL_FILES).sources == sources


def keyed(*columns: int | None) -> list[KeyedOperator]:
    return [KeyedOperator(0, "stateStoreSave", columns)]


def an_input(function: str = "spark", *columns: str) -> Input:
    return Input(topic="t", key_groups=8, key_function=function, key_columns=columns or ("k",))  # type: ignore[arg-type]


def test_the_places_of_the_key_columns_are_in_the_order_of_the_input_key() -> None:
    inputs = {"events": an_input("spark", "a", "b")}
    assert key_functions(keyed(1, None, 0), inputs, mixed=False) == {0: KeyFunction("spark", 8, (2, 0))}


@pytest.mark.parametrize(
    ("columns", "inputs", "mixed", "told"),
    [
        pytest.param(
            (None, 1),
            {"a": an_input("spark", "x", "y")},
            False,
            "Set inputs.<name>.key_function and inputs.<name>.key_columns if",
            id="a key column is missing",
        ),
        pytest.param((0,), {"a": an_input("none")}, False, "Set inputs.<name>.key_function", id="no key function"),
        pytest.param(
            (0,),
            {"a": an_input("spark"), "b": an_input("kafka")},
            False,
            r"inputs.b has key_function kafka, key_columns \['k'\] and key_groups 8",
            id="different key functions",
        ),
        pytest.param((0,), {"a": an_input("spark")}, True, "UNION", id="a union that mixes columns"),
    ],
)
def test_state_whose_key_groups_are_not_known_is_refused(
    columns: tuple[int | None, ...], inputs: dict[str, Input], mixed: bool, told: str
) -> None:
    with pytest.raises(BrokenTask, match=told):
        key_functions(keyed(*columns), inputs, mixed=mixed)


def test_the_operators_of_query_and_checkpoint_must_be_the_same() -> None:
    require_operators(keyed(0), {0: "stateStoreSave"})
    with pytest.raises(BrokenTask, match="dedupe"):
        require_operators(keyed(0), {0: "dedupe"})


def test_operator_metadata_gets_another_number_of_partitions() -> None:
    store = {"storeName": "left-keyToNumValues", "numColsPrefixKey": 0, "numPartitions": 1}
    record = {"operatorInfo": {"operatorId": 3, "operatorName": "symmetricHashJoin"}, "stateStoreInfo": [store]}
    operator = parse_operator(3, f"v1\n{json.dumps(record)}")
    assert operator.metadata_path == "state/3/_metadata/metadata"
    assert operator.schema_paths() == ("state/3/0/left-keyToNumValues/_metadata/schema",)
    version, _, text = operator.metadata_for("file:/new", 5).partition("\n")
    assert (version, json.loads(text)) == ("v1", {**record, "stateStoreInfo": [{**store, "numPartitions": 5}]})
    with pytest.raises(ValueError, match="v3"):
        parse_operator(3, "v3\n{}")


def test_schemas_of_transform_with_state_are_named_in_the_new_checkpoint() -> None:
    path = "state/0/_stateSchema/default/0_some-id"
    store = {
        "storeName": "default",
        "numColsPrefixKey": 0,
        "numPartitions": 1,
        "stateSchemaFilePaths": [f"file:/old/{path}"],
    }
    record = {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateExec"},
        "stateStoreInfo": [store],
        "operatorPropertiesJson": "{}",
    }
    operator = parse_operator(0, f"v2\n{json.dumps(record)}")
    assert operator.metadata_path == "state/0/_metadata/v2/0"
    assert operator.schema_paths() == (path,)
    (moved,) = json.loads(operator.metadata_for("file:/new", 2).partition("\n")[2])["stateStoreInfo"]
    assert moved == {**store, "numPartitions": 2, "stateSchemaFilePaths": [f"file:/new/{path}"]}


def test_logs_are_written_as_they_are_read() -> None:
    conf = {"spark.sql.shuffle.partitions": "1", "other": "x"}
    batch = parse_offsets('v1\n{"batchWatermarkMs":1,"batchTimestampMs":2,"conf":' + json.dumps(conf) + "}\n{}\n-")
    changed = metadata_for(batch.metadata, 4, 10, 20)
    assert changed == {
        "batchWatermarkMs": 10,
        "batchTimestampMs": 20,
        "conf": {"spark.sql.shuffle.partitions": "4", "other": "x"},
    }
    assert parse_offsets(offsets_text(batch)) == batch
    assert commit_text(7) == 'v1\n{"nextBatchWatermarkMs":7}'


def test_state_that_is_not_as_before_is_an_error() -> None:
    require_same(STORE, {"0": [2, "a"]}, {"0": [2, "a"]})
    for found in ({}, {"0": [1, "a"]}, {"0": [2, "b"]}, {"0": [2, "a"], "1": [1, "c"]}):
        with pytest.raises(BrokenCheckpoint):
            require_same(STORE, {"0": [2, "a"]}, found)


def test_a_claim_without_an_epoch_stays_in_the_present_one() -> None:
    assert next_token(None, None, "c") == Token(0, 1)
    assert next_token("7.3\nhost\n", None, "c") == Token(7, 4)


class Attempts:
    """Attempts at the second generation of a job of one task with a files output, without Spark."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.output, self.checkpoint = folder / "out/g2/task-0", str(folder / "g2/task-0")
        output = FilesOutput(path=str(folder / "out"))
        config = JobConfig.model_validate(make_config()).model_copy(update={"output": output})
        layout = Layout(generation=2, config=config, ranges=(KeyGroupRange(0, 8),))
        self._spec = task_specs("j", layout)[0]
        self._runtime = cast(Runtime, SimpleNamespace(files=LOCAL_FILES, settings=SimpleNamespace(checkpoint_root="")))
        monkeypatch.setattr(new, "_new_task", self._claimed)

    def begin(self) -> NewGeneration:
        return NewGeneration(self._runtime, [self._spec], None)

    def plan(self, batch_id: int) -> None:
        """What `plan_batch` leaves."""
        for name in (f"{self.output}/{LOG}", f"{self.checkpoint}/offsets"):
            LOCAL_FILES.write(f"{name}/{batch_id}", b"v1")

    def _claimed(self, _: Runtime, spec: TaskSpec, mark: Mark | None) -> NewTask:
        token = LOCAL_FILES.claim(self.checkpoint, None, "host", mark)
        return NewTask(spec, self.checkpoint, token, cast(Any, None), cast(Any, None))


@pytest.fixture
def attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attempts:
    return Attempts(tmp_path, monkeypatch)


def test_what_an_attempt_planned_is_in_no_log_when_the_next_one_begins(attempts: Attempts) -> None:
    """1. A copy fits: the first attempt plans batch 3, and dies. 2. The next one moves all state, and plans batch 0.
    3. The task may start."""
    attempts.begin()
    attempts.plan(3)
    attempts.begin().clear()
    attempts.plan(0)
    bind(LOCAL_FILES, str(attempts.output), "the query", planned=0)
    assert LOCAL_FILES.names(f"{attempts.output}/{LOG}") == ["0"]


def test_a_late_attempt_deletes_nothing_of_the_log(attempts: Attempts) -> None:
    late = attempts.begin()
    attempts.begin()
    attempts.plan(0)
    with pytest.raises(Fenced):
        late.clear()
    assert LOCAL_FILES.names(f"{attempts.output}/{LOG}") == ["0"]


def test_the_log_of_a_query_stays(attempts: Attempts) -> None:
    fresh = attempts.begin()
    attempts.plan(0)
    LOCAL_FILES.write(f"{attempts.output}/{QUERY}", b"of a query")
    fresh.clear()
    assert LOCAL_FILES.names(f"{attempts.output}/{LOG}") == ["0"]


@pytest.mark.parametrize(
    ("offsets", "told"),
    [(0, "the batch in hand was not committed"), (1200, "still has 1,200 offsets to read")],
)
def test_a_task_that_is_late_says_what_it_waits_for(offsets: int, told: str) -> None:
    said = late("win/1", offsets)
    assert told in said
    assert " 0 offsets" not in said
