"""The command line of Penstock.

httpx imports a command line of its own where it can, with a highlighter of code: a third of what a command imports.
Nobody needs it here, so it counts as not installed.
"""

import sys

sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
