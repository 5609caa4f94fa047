"""Settings that every process has. Each service adds its own in `services/<name>/settings.py`."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from pydantic_settings import BaseSettings, SettingsConfigDict


class CommonSettings(BaseSettings):
    """`PENSTOCK_*` variables read by all services."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_", extra="ignore")

    database_url: str = "postgresql://127.0.0.1:5432/penstock"
    host: str = "127.0.0.1"
    log_format: Literal["json", "console"] = "console"
    log_level: str = "INFO"
    data_dir: Path = Path(".penstock")
    authentication: bool = True

    def identity(self) -> str:
        """A name for this life of this process, as holder of leases."""
        return f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"

    def is_loopback(self) -> bool:
        """Whether the service is bound to this machine only."""
        return self.host == "localhost" or ip_address(self.host).is_loopback
