"""Arguments and options that several commands have."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from penstock.cli.parse import layer_before_file, name_of


def _complete_job(incomplete: str) -> list[str]:
    """Imported when a shell asks: other calls need no names."""
    found: list[str] = import_module("penstock.cli.job_names").names(incomplete)
    return found


Job = Annotated[str, typer.Argument(help="name of the job", callback=name_of("job"), autocompletion=_complete_job)]
Layer = Annotated[
    str, typer.Argument(help="name of the layer: base, provisioner, scaler, oncall, ...", callback=name_of("layer"))
]
LayerOrNone = Annotated[
    str | None,
    typer.Argument(
        help="name of the layer; default: oncall, or the highest one of the token; base for a job that does not exist",
        callback=layer_before_file,
    ),
]
ChangeOrNone = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FIELD=VALUE...]",
        help="such as task_count=4; or one JSON object, or a file that contains one; default: no change",
    ),
]
Config = Annotated[str, typer.Argument(help="a JSON object, or a file that contains one")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="why; kept in the history")]
RequiredReason = Annotated[str, typer.Option("--reason", "-r", help="why; kept in the history; required")]
IfMatch = Annotated[int | None, typer.Option("--if-match", help="refuse unless the layer has this version")]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify/--no-verify",
        help="ask Spark to check the job first; --no-verify if another job will create a topic or table that it reads",
    ),
]
AllowRepeats = Annotated[
    bool,
    typer.Option(
        "--allow-repeats", help="though other jobs read where the job may write rows again that another has written"
    ),
]
PortBase = Annotated[
    int,
    typer.Option(
        min=1024,
        max=65_000,
        help="port of the Job Service; all other ports follow it, up to 61 higher. Default: 7070, with Kafka at 19092",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="print the whole answer as JSON")]
ForTime = Annotated[
    str | None, typer.Option("--for", help="after this time the change is undone: 30m, 2h, 1d; default: never")
]
WholeLayer = Annotated[
    bool,
    typer.Option("--whole-layer", help="with --for: the layer has one expiry; let its other fields have this one, too"),
]
WaitUntilDone = Annotated[
    bool,
    typer.Option(
        "--wait",
        help="wait until every task runs the change and has finished a batch or has nothing to read, or until the job "
        "is stopped",
    ),
]
Timeout = Annotated[str, typer.Option(help="how long to wait: 90s, 10m, 2h; then exit code 3, and Penstock continues")]
WaitOrNot = Annotated[
    bool | None,
    typer.Option(
        "--wait/--no-wait",
        help="default: wait until the job runs the change; --wait: also until every task has finished a batch or has "
        "nothing to read; --no-wait: return at once, and `penstock sync` shows the progress",
    ),
]
WaitForProfile = Annotated[
    bool,
    typer.Option(
        "--wait/--no-wait", help="--no-wait: return at once; `penstock jobs profile JOB --last` shows the result"
    ),
]
WaitForSavepoint = Annotated[
    bool,
    typer.Option("--wait/--no-wait", help="--no-wait: return at once; `penstock savepoint show` shows the progress"),
]
