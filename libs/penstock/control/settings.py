"""Settings that every process has. Each service adds its own in `services/<name>/settings.py`."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class HttpLimits(NamedTuple):
    """How long a server waits for a client, in seconds, and the most connections that it has at once.

    `header_seconds`: until the headers of a request are there. `body_seconds`: until its body is there, and until the
    client reads on. `idle_seconds`: between two requests; longer than clients of the cell keep a connection.
    """

    header_seconds: float = 10.0
    body_seconds: float = 60.0
    most_connections: int = 10_000
    idle_seconds: int = 75


class CommonSettings(BaseSettings):
    """`PENSTOCK_*` variables read by all services.

    `database_pooled`: the URL leads to a pooler that gives each transaction another server connection, and passes no
    notifications on; `database_listen_url` leads past it. `database_connections`: the most connections that the process
    opens to the job store at once.
    `database_statement_seconds`: the store ends a statement that takes longer. `internal_tls`: TLS between processes
    on this machine, too. `metrics_open`: with TLS `/metrics` asks for no identity. `traces_url`: base address of an
    OTLP/HTTP collector; None: no traces.
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
    identity_dir: Path | None = None
    internal_tls: bool = False
    metrics_open: bool = False
    traces_url: str | None = Field(None, pattern="^https?://")
    http_header_seconds: float = Field(10.0, gt=0)
    http_body_seconds: float = Field(60.0, gt=0)
    http_most_connections: int = Field(10_000, ge=1)
    http_idle_seconds: int = Field(75, ge=1)

    def http_limits(self) -> HttpLimits:
        """The limits of the process's HTTP server."""
        return HttpLimits(
            self.http_header_seconds, self.http_body_seconds, self.http_most_connections, self.http_idle_seconds
        )

    def identity(self) -> str:
        """A name for this run of the process, as holder of leases."""
        return f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"

    def identity_folder(self) -> Path:
        """The folder of the files by which the processes of the cell know each other."""
        return self.identity_dir or self.data_dir / "identity"

    def trusted(self) -> Path | None:
        """The authorities that calls of the Job Service trust; None, those of the machine, without an identity."""
        authority = self.identity_folder() / "authority.crt"
        return authority if authority.is_file() else None

    def uses_tls(self) -> bool:
        """Whether the internal port speaks TLS: always when other machines reach it."""
        return self.internal_tls or not self.is_loopback()

    def address(self, port: int, public_url: str | None = None) -> str:
        """The URL at which other processes reach this one's internal port. Raises ValueError when it cannot be."""
        if public_url is not None and self.uses_tls() and not public_url.startswith("https://"):
            raise ValueError(f"PENSTOCK_PUBLIC_URL is {public_url}, but the port speaks TLS: write https://")
        return public_url or f"{'https' if self.uses_tls() else 'http'}://{self.host}:{port}"

    def notifications_url(self) -> str | None:
        """Where NOTIFY can be listened to; None where nothing leads past the pooler."""
        return self.database_listen_url or (None if self.database_pooled else self.database_url)

    def is_loopback(self) -> bool:
        """Whether the service is bound to this machine only."""
        return self.host == "localhost" or ip_address(self.host).is_loopback
