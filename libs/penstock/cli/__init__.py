"""The command line of Penstock.

httpx imports a command line of its own where it can, with a highlighter of code: a third of what a command imports.
Nobody needs it here, so it counts as not installed. Nor are there plugins of pydantic, which would look through the
metadata of all packages that are installed.
"""

import sys
from types import SimpleNamespace

sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
sys.modules.setdefault("pydantic.plugin._loader", SimpleNamespace(get_plugins=tuple))  # type: ignore[arg-type]
