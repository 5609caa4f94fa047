"""Single calls over HTTP, as `httpx.get` and the like, which read the machine's certificates each time (40 ms)."""

from __future__ import annotations

from functools import partial

import httpx

from penstock.wire.http import certificates

get = partial(httpx.get, verify=certificates())
post = partial(httpx.post, verify=certificates())
put = partial(httpx.put, verify=certificates())
delete = partial(httpx.delete, verify=certificates())
