"""What jobs ask for as one text, and which containers have it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tasks.selectors import in_words, meets, offered, parts, selector, selector_of

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,3}[a-z0-9])?", fullmatch=True)
FEW = st.sampled_from(["a", "a.b", "a-b", "a_b", "a0"])
LABELS = st.dictionaries(NAMES | FEW, NAMES | FEW, max_size=4)
REGIONS = st.none() | NAMES | FEW


@pytest.mark.parametrize(
    ("config", "asked", "words"),
    [
        ({"region": "eu"}, "eu", "region eu"),
        ({"region": "eu", "container_labels": {}}, "eu", "region eu"),
        ({"container_labels": {"disk": "ssd"}}, "disk=ssd", "label disk=ssd"),
        (
            {"region": "eu", "container_labels": {"gpu": "yes", "disk": "ssd"}},
            "eu,disk=ssd,gpu=yes",
            "region eu and labels disk=ssd, gpu=yes",
        ),
        ({"container_labels": {"a-b": "x", "a": "z", "a0": "y"}}, "a=z,a-b=x,a0=y", "labels a-b=x, a0=y, a=z"),
    ],
)
def test_the_text_of_what_is_asked_for(config: dict[str, object], asked: str, words: str) -> None:
    assert selector_of(config) == asked
    assert in_words(asked) == words


@pytest.mark.parametrize("config", [{}, {"region": None, "container_labels": {}}, {"container_labels": None}])
def test_who_asks_for_nothing_has_no_selector(config: dict[str, object]) -> None:
    assert selector_of(config) is None


@given(REGIONS, LABELS)
def test_a_text_means_one_thing(region: str | None, labels: dict[str, str]) -> None:
    asked = selector(region, labels)
    if asked is None:
        assert (region, labels) == (None, {})
    else:
        assert parts(asked) == (region, {f"{name}={value}" for name, value in labels.items()})
        assert selector(region, dict(reversed(labels.items()))) == asked


@given(NAMES | FEW, LABELS, REGIONS, LABELS)
def test_a_container_meets_what_it_has_all_of(
    here: str, has: dict[str, str], region: str | None, labels: dict[str, str]
) -> None:
    plainly = region in (None, here) and all(has.get(name) == value for name, value in labels.items())
    assert meets(offered(here, has), selector(region, labels)) is plainly
    assert meets(offered(here, has), selector(here, has))
