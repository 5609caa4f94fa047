"""Where the CLI finds the Job Service and its token: environment first, then the data folder of `penstock up`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from penstock.control.errors import Unauthenticated, UserError

PREFIX = "PENSTOCK_"
DEFAULT_URL = "http://127.0.0.1:7070"


def editor() -> str:
    """The command of the user's editor."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"


class CliSettings(BaseModel):
    """The `PENSTOCK_*` variables that the CLI reads; those of Kafka are in `penstock.cli.kafka_settings`.

    Not a `BaseSettings`: importing pydantic_settings takes longer than the rest of a call.
    """

    model_config = ConfigDict(frozen=True)

    url: str | None = None
    token: str | None = None
    data_dir: Path = Path(".penstock")
    kafka_bootstrap: str | None = None
    packages_root: Path | None = None
    checkpoint_root: str | None = None
    database_url: str | None = None
    identity_dir: Path | None = None
    authority_file: Path | None = None

    @classmethod
    def read(cls) -> Self:
        """The settings of this shell. Raises UserError when they do not fit each other."""
        present = {name: os.environ.get(f"{PREFIX}{name.upper()}") for name in cls.model_fields}
        try:
            return cls.model_validate({name: value for name, value in present.items() if value is not None})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = f"{PREFIX}{'_'.join(map(str, first['loc']))}: ".upper() if first["loc"] else ""
            raise UserError(field + first["msg"].removeprefix("Value error, "), rule="setting") from error

    def service_url(self) -> str:
        """The Job Service's address."""
        return self.url or str(self.stack().get("url", DEFAULT_URL))

    def bearer_token(self) -> str:
        """The token to send. Raises Unauthenticated when there is none."""
        path = self.data_dir / "admin.token"
        if self.token:
            return self.token
        if not path.exists():
            raise Unauthenticated(
                f"no token: there is no {path}. Run this where `penstock up` runs, or set "
                "PENSTOCK_DATA_DIR to its folder, or PENSTOCK_URL and PENSTOCK_TOKEN"
            )
        return path.read_text().strip()

    def identity_folder(self) -> Path:
        """The folder of the cell's identity."""
        return self.identity_dir or self.data_dir / "identity"

    def is_local(self) -> bool:
        """Whether `penstock up` has written a stack into the data folder, and no other one is named."""
        return self.url is None and (self.data_dir / "stack.json").exists()

    def store_url(self) -> str | None:
        """The job store where it is known: as the environment has it, else that of `penstock up`."""
        url = self.database_url or self.stack().get("database_url")
        return None if url is None else str(url)

    def packages(self) -> Path:
        """The folder of packages."""
        return self.packages_root or self.data_dir / "packages"

    def stack(self) -> dict[str, object]:
        """What `penstock up` has noted of its stack; empty where there is none. Raises UserError."""
        path = self.data_dir / "stack.json"
        try:
            return dict(orjson.loads(path.read_bytes())) if path.exists() else {}
        except orjson.JSONDecodeError as error:
            raise UserError(f"{path} is damaged (`penstock up` writes it): {error}", field="data_dir") from error
