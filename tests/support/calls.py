"""Single calls over HTTP, as `httpx.get` and the like, which read the machine's certificates each time (40 ms)."""

from __future__ import annotations

from functools import partial

import httpx

from penstock.wire.http import certificates

_PATIENCE_S = 30.0
get = partial(httpx.get, verify=certificates(), timeout=_PATIENCE_S)
post = partial(httpx.post, verify=certificates(), timeout=_PATIENCE_S)
put = partial(httpx.put, verify=certificates(), timeout=_PATIENCE_S)
delete = partial(httpx.delete, verify=certificates(), timeout=_PATIENCE_S)
