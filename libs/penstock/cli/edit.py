"""`penstock layers edit`: a layer in the user's editor. What was typed is never lost."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from penstock.cli.arguments import Job, Layer, Reason, Timeout, Verify, WaitUntilDone
from penstock.cli.connection import client
from penstock.cli.output import say
from penstock.cli.parse import duration_seconds, expiry_seconds, json_object
from penstock.cli.settings import editor
from penstock.cli.since import telling_writes
from penstock.cli.waiting import say_and_wait
from penstock.config.patches import patch_between
from penstock.control.errors import PenstockError, UserError
from penstock.wire.job_client import Expiring
from penstock.wire.jobs import LayerView

_COMMENT = "#"


def edit(
    job: Job,
    layer: Layer,
    reason: Reason = "",
    for_: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="30m, 1h30m, 1d or never; default: the layer keeps its expiry, or gets its default if it is new",
        ),
    ] = None,
    from_: Annotated[
        Path | None, typer.Option("--from", help="begin with the text of this file, such as one that was kept")
    ] = None,
    verify: Verify = True,
    wait: WaitUntilDone = False,
    timeout: Timeout = "5m",
) -> None:
    """Edit a layer of a job in $VISUAL or $EDITOR. Refused if somebody has written it meanwhile; the text is kept.

    An expiry of the layer stays as it is, unless --for gives one. An unchanged text writes nothing.
    """
    connection, seconds = client(), duration_seconds(timeout, field="timeout")
    before = connection.get_layer(job, layer)
    file = _file(before, from_)
    try:
        change = _edited(job, file, before)
        if not change:
            file.unlink()
            return say("nothing was changed")
        expires = "default" if for_ is None else expiry_seconds(for_)
        given = Expiring(reason=reason, expires_in_seconds=expires)
        with telling_writes(connection, job, layer, before.version):
            written = connection.patch_layer(job, layer, change, if_match=before.version, verify=verify, **given)
    except PenstockError as error:
        error.detail = f"{error.detail}. {_kept(job, layer, file)}"
        raise
    file.unlink()
    return say_and_wait(connection, written, seconds if wait else None)


def _file(layer: LayerView, from_: Path | None) -> Path:
    """A file of the user's own with the text to edit."""
    if from_ is not None and not from_.is_file():
        raise UserError(f"there is no file {from_}", field="from", rule="known")
    text = _text(layer) if from_ is None else from_.read_text()
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"penstock-{layer.job}-{layer.layer}-", suffix=".json", delete=False
    ) as file:
        file.write(text)
    return Path(file.name)


def _text(layer: LayerView) -> str:
    ends = "" if layer.expires_at is None else f", ends {layer.expires_at:%Y-%m-%d %H:%M} UTC"
    head = f"{_COMMENT} {layer.job}, layer {layer.layer}, version {layer.version}{ends}. Lines with # do not count.\n"
    return head + orjson.dumps(layer.config or {}, option=orjson.OPT_INDENT_2).decode() + "\n"


def _edited(job: str, file: Path, before: LayerView) -> dict[str, Any]:
    """The merge patch that the user's text stands for. Raises UserError."""
    words = [*shlex.split(editor()), str(file)]
    try:
        code = subprocess.run(words, check=False).returncode
    except OSError as error:
        raise UserError(f"{words[0]} cannot be run: {error}: set EDITOR", field="EDITOR", rule="runs") from error
    if code:
        raise UserError(f"{words[0]} ended with code {code}: nothing was written", field="EDITOR", rule="runs")
    lines = [line for line in file.read_text().splitlines() if not line.lstrip().startswith(_COMMENT)]
    text = "\n".join(lines).strip()
    if not text:
        raise UserError(
            f"the text is empty: `penstock layers drop {job} {before.layer}` removes a layer",
            field="config",
            rule="json_object",
        )
    if not text.startswith("{"):
        raise UserError("write a JSON object: {...}", field="config", rule="json_object")
    return patch_between(before.config or {}, json_object(text))


def _kept(job: str, layer: str, file: Path) -> str:
    return f"Your text is kept: `penstock layers edit {job} {layer} --from {file}`"
