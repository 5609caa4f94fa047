"""Which layers a new rank puts on the other side, and what is refused."""

from __future__ import annotations

import pytest

from penstock.control.errors import Conflict, NotFound
from penstock.model.jobs import LayerRow
from services.job_service.cell_layers import require_changeable, require_removable

ROWS = {"base": 0, "a": 50, "scaler": 200, "b": 250, "oncall": 300}
LAYERS = {name: LayerRow(name, rank) for name, rank in ROWS.items()}


@pytest.mark.parametrize(
    ("name", "rank", "overtaken"),
    [
        ("a", 50, set()),
        ("a", 150, set()),
        ("a", 225, {"scaler"}),
        ("a", 275, {"scaler", "b"}),
        ("a", -1, {"base"}),
        ("b", 10, {"a", "scaler"}),
        ("b", 1000, {"oncall"}),
        ("base", 0, set()),
    ],
)
def test_the_layers_on_the_other_side(name: str, rank: int, overtaken: set[str]) -> None:
    assert require_changeable(LAYERS, LayerRow(name, rank, 60, "other")) == overtaken


@pytest.mark.parametrize(("name", "rank", "rule"), [("base", 1, "builtin"), ("a", 200, "unique")])
def test_a_rank_that_may_not_be(name: str, rank: int, rule: str) -> None:
    with pytest.raises(Conflict) as refused:
        require_changeable(LAYERS, LayerRow(name, rank))
    assert (refused.value.field, refused.value.rule) == ("rank", rule)


def test_a_layer_that_may_not_be_removed() -> None:
    assert require_removable(LAYERS, "a") is LAYERS["a"]
    with pytest.raises(Conflict):
        require_removable(LAYERS, "scaler")
    with pytest.raises(NotFound):
        require_removable(LAYERS, "c")
