"""`penstock topics produce` that is ended: it leaves no open transaction, for which readers would wait."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from penstock.cli import topics
from penstock.cli.connection import require_named
from penstock.control.errors import Conflict, UserError
from penstock.local.records import Format
from penstock.spark import delivery
from tests.support.kafka.refusing import RefusingProducer

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class NotHandled(Exception):
    """A signal that would have ended the process at once."""


@pytest.fixture
def produce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[signal.Signals], None]]:
    """The command, during which a signal comes."""

    def end(_: int, __: FrameType | None) -> None:
        raise NotHandled

    def produced(number: signal.Signals) -> None:
        monkeypatch.setattr(RefusingProducer, "poll", lambda *_: signal.raise_signal(number))
        topics.produce("rows", rows)

    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n")
    monkeypatch.setenv("PENSTOCK_KAFKA_BOOTSTRAP", "here")
    monkeypatch.setattr(topics.topics, "partition_count", lambda *_: 1)
    monkeypatch.setattr(delivery, "Producer", RefusingProducer)
    monkeypatch.setattr(RefusingProducer, "code", None)
    before = {number: signal.signal(number, end) for number in _ENDING}
    yield produced
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", _ENDING)
def test_a_signal_takes_the_records_back(
    number: signal.Signals, produce: Callable[[signal.Signals], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """As Ctrl-C does. Other commands have the handlers of before."""
    mine = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        produce(number)
    assert RefusingProducer.calls == ["init", "begin", "send", "abort"]
    assert "all of the records were sent, or none" in capsys.readouterr().err
    assert signal.getsignal(number) == mine


@pytest.mark.parametrize(
    ("form", "options", "told"),
    [
        ("json", {"separator": ";"}, "--separator is of raw and base64"),
        ("raw", {"key": "k"}, "--key names columns of json; of raw, --separator"),
        ("base64", {"separator": ""}, "--separator is empty"),
    ],
)
def test_an_option_of_another_format_is_refused(form: Format, options: dict[str, str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        topics.produce("rows", form=form, **options)


def test_a_cluster_is_one_that_the_cell_names() -> None:
    parts = ["store", "bus", "bus eu", "bus analytics"]
    require_named("eu", parts)
    with pytest.raises(Conflict, match=r"no Kafka cluster us; there are: analytics, eu\. Its jobs may know"):
        require_named("us", parts)


def test_nohup_keeps_its_meaning(produce: Callable[[signal.Signals], None]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    produce(signal.SIGHUP)
    assert RefusingProducer.calls == ["init", "begin", "send", "commit"]
