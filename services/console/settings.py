"""Settings of the console: `PENSTOCK_*` variables."""

from __future__ import annotations

from pydantic import Field, SecretStr

from penstock.control.settings import CommonSettings


class ConsoleSettings(CommonSettings):
    """Settings besides the common ones."""

    port: int = Field(7077, ge=0, le=65535, description="port of the pages")
    job_service_url: str = Field("http://127.0.0.1:7070", description="address of the Job Service")
    console_key: SecretStr = Field(
        SecretStr(""),
        description="seals the cookies: any long secret, the same for all consoles behind one address. "
        "Without it a restart signs everybody out",
    )
    console_session_seconds: int = Field(43_200, ge=60, description="after this time a user signs in again")
    console_refresh_seconds: float = Field(5.0, ge=1, description="time between two updates of an open page")
    console_tls: bool = Field(
        True,
        description="TLS when other machines reach the port, or with `PENSTOCK_INTERNAL_TLS`; `false` behind a proxy "
        "that speaks TLS",
    )

    def serves_tls(self) -> bool:
        """Whether the port speaks TLS."""
        return self.console_tls and self.uses_tls()
