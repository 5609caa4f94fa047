"""Settings that every process has. Each service adds its own in `services/<name>/settings.py`."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class CommonSettings(BaseSettings):
    """`PENSTOCK_*` variables read by all services.

    `database_pooled`: the URL leads to a pooler that gives each transaction another server connection, and passes no
    notifications on; `database_listen_url` leads past it. `database_connections`: the most connections that the process
    opens to the job store at once.
    `database_statement_seconds`: the store ends a statement that takes longer.
    """

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_", extra="ignore")

    database_url: str = "postgresql://127.0.0.1:5432/penstock"
    database_pooled: bool = False
    database_listen_url: str | None = None
    database_connections: int = Field(10, ge=1)
    database_statement_seconds: float = Field(30.0, gt=0)
    host: str = "127.0.0.1"
    log_format: Literal["json", "console"] = "console"
    log_level: str = "INFO"
    data_dir: Path = Path(".penstock")
    authentication: bool = True

    def identity(self) -> str:
        """A name for this run of the process, as holder of leases."""
        return f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"

    def notifications_url(self) -> str | None:
        """Where NOTIFY can be listened to; None where nothing leads past the pooler."""
        return self.database_listen_url or (None if self.database_pooled else self.database_url)

    def is_loopback(self) -> bool:
        """Whether the service is bound to this machine only."""
        return self.host == "localhost" or ip_address(self.host).is_loopback
