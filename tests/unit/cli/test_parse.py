"""What people type."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.parse import duration_seconds, expiry_seconds, json_object, layer_before_file, name_of
from penstock.control.errors import UserError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86_400), (" 5m ", 300)],
        *[("30minutes", 1800), ("30 min", 1800), ("1h30m", 5400), ("1 day 2 hours", 93_600), ("1H", 3600)],
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize(("text", "expires"), [(None, "default"), ("never", None), ("2h", 7200)])
def test_an_expiry_may_be_never_or_not_given(text: str | None, expires: object) -> None:
    assert expiry_seconds(text) == expires


@pytest.mark.parametrize("text", ["", "0", "0h", "-5m", "1.5h", "5w", "30m1h", "1h1h", "1m30", "soon", "m", "9" * 5000])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(UserError, match="is not a duration") as refused:
        duration_seconds(text)
    assert (refused.value.field, refused.value.rule) == ("for", "duration")


def test_an_object_is_typed_or_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text('{"task_count": 2}')
    assert json_object(' {"task_count": 2}') == json_object(str(file)) == {"task_count": 2}


def test_names_are_replaced_in_files_only_and_others_are_left(tmp_path: Path) -> None:
    text = '{"path": "${data_dir}/out", "sql": "${other} $1"}'
    file = tmp_path / "job.json"
    file.write_text(text)
    assert json_object(str(file), names={"data_dir": "/data"}) == {"path": "/data/out", "sql": "${other} $1"}
    assert json_object(text, names={"data_dir": "/data"})["path"] == "${data_dir}/out"


def test_two_jobs_made_of_the_example_write_to_folders_of_their_own() -> None:
    example = str(Path(__file__).parents[3] / "deploy" / "examples" / "join" / "job.json")
    found = [json_object(example, names={"data_dir": "/data", "job": job}) for job in ("join", "join2")]
    assert [each["output"]["path"] for each in found] == ["/data/outputs/join", "/data/outputs/join2"]


@pytest.mark.parametrize(
    ("text", "told"),
    [("{", "not JSON"), ("nosuch.json", "neither a JSON object nor a file"), ("[1]", "neither"), ("", "neither")],
)
def test_anything_else_is_no_object(text: str, told: str) -> None:
    with pytest.raises(UserError, match=told) as refused:
        json_object(text)
    assert (refused.value.field, refused.value.rule) == ("config", "json_object")


def test_a_file_that_holds_a_list_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text("[1]")
    with pytest.raises(UserError, match="write a JSON object"):
        json_object(str(file))


@pytest.mark.parametrize("name", ["", "..", "../../etc", "x/0", "Job", "a\n"])
def test_what_is_no_name_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(UserError, match="a job's name has 1 to 100 lower case letters") as refused:
        name_of("job")(name)
    assert (refused.value.field, refused.value.rule) == ("job", "name")


def test_a_configuration_in_place_of_the_layer_is_refused_with_the_right_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a file whose name could be a layer's."""
    monkeypatch.chdir(tmp_path)
    for name in ("job.json", "base"):
        Path(name).write_text("{}")
    for typed in ("./job.json", "job.json", '{"task_count": 2}'):
        with pytest.raises(UserError, match="give the layer before the file: `penstock plan JOB base FILE`") as refused:
            layer_before_file(typed)
        assert (refused.value.field, refused.value.rule) == ("layer", "name")
    with pytest.raises(UserError, match="cannot be a name"):
        layer_before_file("./none.json")
    assert [layer_before_file(name) for name in ("base", "none.json", None)] == ["base", "none.json", None]
