"""Single calls over HTTP, as `httpx.get` and the like, which read the machine's certificates each time (40 ms)."""

from __future__ import annotations

from functools import partial

import httpx

from penstock.wire.http import certificates

_HOW = {"verify": certificates(), "timeout": 30.0}
get = partial(httpx.get, **_HOW)
post = partial(httpx.post, **_HOW)
put = partial(httpx.put, **_HOW)
delete = partial(httpx.delete, **_HOW)
