"""What may be a name. Apart from the models, so that the command line is quick to import."""

from __future__ import annotations

NAME = r"^[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?$"
"""What becomes a path or a part of a URL. Never `..`, never with a slash."""
NAME_EXAMPLE = "orders-by-day"
NAME_RULE = (
    "has 1 to 100 lower case letters, digits, dots, dashes and underscores, and begins and ends with a letter or "
    f"digit, such as {NAME_EXAMPLE}"
)
"""What `NAME` says, for people."""
