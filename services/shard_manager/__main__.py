"""Runs a Shard Manager: `python -m services.shard_manager`."""

from __future__ import annotations

from penstock.control.logs import configure
from penstock.wire.app import serve, tls_of
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.wiring import build


def main() -> None:
    """Serves until SIGTERM."""
    settings = ShardManagerSettings()
    configure("shard_manager", log_format=settings.log_format, level=settings.log_level)
    process = build(settings)
    process.start()
    try:
        serve(process.app, settings.host, settings.port, tls=tls_of(process.identity))
    finally:
        process.stop()


if __name__ == "__main__":
    main()
