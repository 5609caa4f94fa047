"""Where the CLI finds things: the environment first, then what `penstock up` wrote, then the usual address."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli.connection import names_in_files
from penstock.cli.kafka_settings import CliKafkaSettings
from penstock.cli.settings import DEFAULT_URL, CliSettings
from penstock.control.errors import Unauthenticated, UserError


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `.penstock` of the present folder, with nothing said by the environment."""
    for name in ("URL", "TOKEN", "DATA_DIR", "KAFKA_BOOTSTRAP", "PACKAGES_ROOT", "DATABASE_URL"):
        monkeypatch.delenv(f"PENSTOCK_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".penstock"
    folder.mkdir()
    return folder


def _write_stack(data_dir: Path) -> None:
    facts = {"url": "http://127.0.0.1:1234", "kafka_bootstrap": "127.0.0.1:5678"}
    (data_dir / "stack.json").write_text(json.dumps(facts))
    (data_dir / "admin.token").write_text("pst_file\n")


def test_without_anything_the_usual_addresses_and_no_token(data_dir: Path) -> None:
    settings = CliKafkaSettings.read()
    assert (settings.service_url(), str(settings.kafka())) == (DEFAULT_URL, "127.0.0.1:19092")
    assert settings.packages() == Path(".penstock/packages")
    with pytest.raises(Unauthenticated, match="set PENSTOCK_DATA_DIR"):
        settings.bearer_token()


def test_the_stack_on_this_machine_is_found(data_dir: Path) -> None:
    _write_stack(data_dir)
    settings = CliKafkaSettings.read()
    assert (settings.service_url(), str(settings.kafka())) == ("http://127.0.0.1:1234", "127.0.0.1:5678")
    assert settings.bearer_token() == "pst_file"


def test_files_of_jobs_name_the_folder_itself_and_not_a_link_to_it(data_dir: Path) -> None:
    """The stack allows paths below its folder, as it is called without links."""
    data_dir.rmdir()
    (data_dir.parent / "elsewhere").mkdir()
    data_dir.symlink_to("elsewhere")
    assert names_in_files("a")["data_dir"] == str(data_dir.parent.resolve() / "elsewhere")


def test_the_environment_wins(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_stack(data_dir)
    monkeypatch.setenv("PENSTOCK_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("PENSTOCK_TOKEN", "pst_env")
    monkeypatch.setenv("PENSTOCK_KAFKA_BOOTSTRAP", "127.0.0.1:2")
    monkeypatch.setenv("PENSTOCK_PACKAGES_ROOT", "/packages")
    settings = CliKafkaSettings.read()
    assert (settings.service_url(), settings.bearer_token()) == ("http://127.0.0.1:1", "pst_env")
    assert (str(settings.kafka()), settings.packages()) == ("127.0.0.1:2", Path("/packages"))


def test_another_folder_can_be_named(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_stack(data_dir)
    data_dir.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("PENSTOCK_DATA_DIR", str(tmp_path / "elsewhere"))
    assert CliSettings.read().bearer_token() == "pst_file"


def test_a_broken_stack_file_is_told(data_dir: Path) -> None:
    (data_dir / "stack.json").write_text("{")
    with pytest.raises(UserError, match=r"stack\.json is damaged"):
        CliSettings.read().service_url()
