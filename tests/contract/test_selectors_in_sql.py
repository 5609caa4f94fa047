"""Selectors as SQL has them, and as Python does."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text

from penstock.store.engine import transaction
from penstock.store.selectors import selector_in
from penstock.tasks.selectors import selector_of

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,3}[a-z0-9])?", fullmatch=True) | st.sampled_from(
    ["a", "a-b", "a.b", "a0"]
)
MALFORMED = st.sampled_from(["", "disk=ssd", 0, 7, False, True, [], ["disk"], [{}]])
LABELS = st.none() | st.dictionaries(NAMES, NAMES, max_size=4) | MALFORMED
CONFIGS = st.fixed_dictionaries({}, optional={"region": st.none() | NAMES, "container_labels": LABELS})
_IN_SQL = text(f"SELECT {selector_in('config')} FROM jsonb_array_elements(CAST(:configs AS jsonb)) AS config")
FEW = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def asked(engine: Engine, statement: Any, **values: Any) -> list[Any]:
    with transaction(engine) as connection:
        return list(connection.execute(statement, values).scalars())


@FEW
@given(st.lists(CONFIGS, max_size=20))
def test_the_selector_of_a_stored_configuration(engine: Engine, configs: list[dict[str, Any]]) -> None:
    found = asked(engine, _IN_SQL, configs=orjson.dumps(configs).decode())
    assert found == [selector_of(config) for config in configs]
