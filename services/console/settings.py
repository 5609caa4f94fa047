"""Settings of the console: `PENSTOCK_*` variables."""

from __future__ import annotations

import re

from pydantic import Field, SecretStr, field_validator

from penstock.control.settings import CommonSettings

LEAST_KEY = 32


class ConsoleSettings(CommonSettings):
    """Settings besides the common ones."""

    port: int = Field(7077, ge=0, le=65535, description="port of the pages")
    job_service_url: str = Field("http://127.0.0.1:7070", description="address of the Job Service")
    console_key: SecretStr = Field(
        SecretStr(""),
        description="seals the cookies: at least 32 characters, the same for all consoles behind one address. "
        "Without it a restart signs everybody out",
    )
    console_url: str = Field(
        "",
        description="the address that browsers use, such as `https://penstock.example`: forms of other origins and "
        "requests for other hosts are refused. Needed behind a proxy that changes the header Host",
    )
    console_session_seconds: int = Field(43_200, ge=60, description="after this time a user signs in again")
    console_refresh_seconds: float = Field(
        5.0, ge=1, description="an open page is refreshed after this time at the latest"
    )
    console_tls: bool = Field(
        True,
        description="TLS when other machines reach the port, or with `PENSTOCK_INTERNAL_TLS`; `false` behind a proxy "
        "that speaks TLS",
    )

    @field_validator("console_key")
    @classmethod
    def _long_enough(cls, key: SecretStr) -> SecretStr:
        if 0 < len(key.get_secret_value()) < LEAST_KEY:
            raise ValueError(f"PENSTOCK_CONSOLE_KEY needs at least {LEAST_KEY} characters")
        return key

    @field_validator("console_url")
    @classmethod
    def _an_origin(cls, url: str) -> str:
        if url and re.fullmatch(r"https?://[^/\s?#]+", url.rstrip("/")) is None:
            raise ValueError(f"PENSTOCK_CONSOLE_URL is {url}: write https://host or https://host:port")
        return url.rstrip("/")

    def is_secure(self) -> bool:
        """Whether browsers come by TLS: this port speaks it, or a proxy does before a port that others reach."""
        return self.console_url.startswith("https://") or (not self.console_url and self.uses_tls())

    def serves_tls(self) -> bool:
        """Whether the port speaks TLS."""
        return self.console_tls and self.uses_tls()
