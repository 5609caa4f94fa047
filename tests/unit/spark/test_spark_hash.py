"""The hash of `tests.support.spark_hash`, against values that Spark gave."""

from __future__ import annotations

import pytest

from tests.support.spark_hash import key_group


@pytest.mark.parametrize(("key", "group"), [])
def test_the_key_group_is_that_of_spark(key: str, group: int) -> None:
    assert key_group(key, 24) == group
