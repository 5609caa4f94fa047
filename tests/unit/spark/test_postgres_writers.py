"""Which job made a table, by its comment."""

from __future__ import annotations

import pytest

from penstock.spark.sinks.postgres_writers import maker_in

ROWS = "Rows of the Penstock job "


@pytest.mark.parametrize(
    ("comment", "maker"),
    [
        (f"{ROWS}orders", "orders"),
        (f"{ROWS}eu.orders_2-x", "eu.orders_2-x"),
        (f"{ROWS}orders. Owner: team data", "orders"),
        (f"{ROWS}eu.orders.", "eu.orders"),
        (f"{ROWS}orders, hourly", "orders"),
        (f"{ROWS}orders\nOwner: team data", "orders"),
        (f"{ROWS}orders.Owner: team data", "orders"),
        (f"{ROWS}ordersOld", None),
        (f"{ROWS}{'x' * 101}", None),
        (f"Old! {ROWS}orders", None),
        ("Rows of flights", None),
        ("", None),
    ],
)
def test_a_comment_names_a_maker_also_when_somebody_extends_it(comment: str, maker: str | None) -> None:
    assert maker_in(comment) == maker
