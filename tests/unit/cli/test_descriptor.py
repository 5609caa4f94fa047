"""`penstock descriptor`: a descriptor set as a job has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from penstock.config.validate import check_merged
from tests.support.cli.shell import Shell
from tests.support.config.jobs import job
from tests.support.kafka.protobuf import field, message
from tests.unit.config.test_protobuf import NAME, SET


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def test_a_set_becomes_a_part_of_a_job(shell: Shell, tmp_path: Path) -> None:
    """1. Its messages are listed. 2. One of them is printed as an input takes it; only that is on the standard output.
    3. A file or a name that is none is refused, and
    files that are too long for a job."""
    file = tmp_path / "shop.desc"
    file.write_bytes(SET.SerializeToString())
    assert shell("descriptor", str(file)).ok().split() == [
        "google.protobuf.Timestamp",
        "Base",
        "o.Other",
        NAME,
        f"{NAME}.Line",
    ]
    ended = shell("descriptor", str(file), NAME)
    assert ended.err == f"fields of {NAME}: Dest, time, base, tags\n"
    check_merged(job({"inputs": {"flights": {"format": "protobuf", **json.loads(ended.ok())}}}))
    refused = shell("descriptor", str(file), "Order").refusal()
    assert f"{file} has no message Order: `penstock descriptor {file}` lists those" in refused
    wide = message("Wide", *[field(number, f"f{number}_{'x' * 900}", "int32") for number in range(1, 100)])
    file.write_bytes(
        FileDescriptorSet(file=[FileDescriptorProto(name="w.proto", message_type=[wide])]).SerializeToString()
    )
    assert "characters, and value_schema may have at most 100000" in shell("descriptor", str(file), "Wide").refusal()
    (tmp_path / "shop.proto").write_text('syntax = "proto3";')
    needed = (
        "`protoc --include_imports --descriptor_set_out=shop.desc shop.proto`; then `penstock descriptor shop.desc`"
    )
    source = shell("descriptor", str(tmp_path / "shop.proto")).refusal()
    assert source.startswith(f"UserError: {tmp_path}/shop.proto is no descriptor set: protoc writes one")
    file.unlink()
    missing = shell("descriptor", str(file)).refusal()
    assert missing.startswith(f"UserError: there is no file {file}: protoc writes one")
    assert needed in source
    assert needed in missing
