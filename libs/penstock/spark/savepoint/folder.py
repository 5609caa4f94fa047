"""The paths of savepoints and their manifest. The folder of a savepoint appears complete, in one step.

<root>/<job>/savepoints/<name>/
    savepoint.json      SavepointManifest
    task-<index>/       a checkpoint as Spark would leave it after the last finished batch
"""

from __future__ import annotations

from pydantic import ValidationError

from penstock.control.errors import BrokenCheckpoint
from penstock.spark.files import Files
from penstock.tasks.savepoint import SavepointManifest

MANIFEST = "savepoint.json"


def savepoints_folder(root: str, job: str) -> str:
    """The Hadoop path of all savepoints of a job."""
    return f"{root.rstrip('/')}/{job}/savepoints"


def savepoint_folder(root: str, job: str, name: str) -> str:
    """The Hadoop path of a savepoint."""
    return f"{savepoints_folder(root, job)}/{name}"


def task_folder(savepoint: str, index: int) -> str:
    """The Hadoop path of a task's checkpoint in a savepoint."""
    return f"{savepoint}/task-{index}"


def read_manifest(savepoint: str, files: Files) -> SavepointManifest | None:
    """The manifest of a savepoint; None if there is no savepoint. Raises BrokenCheckpoint if it cannot be read."""
    try:
        return SavepointManifest.model_validate_json(files.read(f"{savepoint}/{MANIFEST}"))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise BrokenCheckpoint(f"{savepoint}/{MANIFEST} cannot be read: {error}") from error
