"""What texts must not show."""

from __future__ import annotations

import pytest
from psycopg.pq import Conninfo

from penstock.control.masks import Masks, mask_urls


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("no route to postgresql://ann:s3cr3t@db:5432/x", "no route to postgresql://ann:***@db:5432/x"),
        ("postgresql+psycopg://:p%40w@/x?host=/run", "postgresql+psycopg://:***@/x?host=/run"),
        ("host=db password=hunter2 dbname=x", "host=db password=*** dbname=x"),
        ("password = 'two words' dbname=x", "password = *** dbname=x"),
        ("postgresql://db/x?user=ann&password=hunter2&a=1", "postgresql://db/x?user=ann&password=***&a=1"),
        ("http://127.0.0.1:7070/v1/jobs/x@y", "http://127.0.0.1:7070/v1/jobs/x@y"),
        ("postgresql://ann@db/x", "postgresql://ann@db/x"),
        ("ask ann@db: a:b@c", "ask ann@db: a:b@c"),
    ],
)
def test_passwords_of_urls_are_masked_and_nothing_else(text: str, masked: str) -> None:
    assert mask_urls(text) == masked


def test_every_option_that_libpq_calls_a_secret_is_masked() -> None:
    options = [option for option in Conninfo.get_defaults() if option.dispchar == b"*"]
    names = [name.decode() for option in options for name in (option.keyword, option.envvar) if name is not None]
    assert {"password", "PGPASSWORD", "sslpassword"} <= set(names)
    for name in names:
        assert mask_urls(f"host=db {name}=hunter2 user=ann") == f"host=db {name}=*** user=ann"


def test_kept_values_are_masked_also_in_json_and_line_by_line() -> None:
    masks = Masks()
    masks.add(['quo"ted-value', "-----BEGIN KEY-----\nabcdefgh\n", "short", "longer-value"])
    masks.add(["longer-value-still"])
    assert masks.apply('{"error": "got quo\\"ted-value"}') == '{"error": "got ***"}'
    assert masks.apply("line abcdefgh, longer-value-still, longer-value") == "line ***, ***, ***"
    assert masks.apply("a short one") == "a short one"
    assert masks.apply("at postgresql://a:b@c") == "at postgresql://a:***@c"
