"""Prints the table of the example, from the database that `penstock up` gives to jobs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psycopg

stack = json.loads((Path(os.environ.get("PENSTOCK_DATA_DIR", ".penstock")) / "stack.json").read_text())
with psycopg.connect(stack["outputs_url"]) as connection:
    for row in connection.execute("SELECT account, bookings, balance_cents FROM totals ORDER BY account"):
        print(*row)
