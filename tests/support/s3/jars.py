"""What tests on S3 need besides `make setup`: fetched once into the folder of jars."""

from __future__ import annotations

from pathlib import Path

from penstock.local.jars import fetch_store_jars, share_dir


def s3_jars() -> Path:
    """The folder of S3A and the AWS SDK, fetched when it is not there."""
    fetch_store_jars(["s3"])
    return share_dir() / "jars" / "s3"
