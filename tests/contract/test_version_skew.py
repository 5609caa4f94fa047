"""Messages and stored documents between neighbouring releases, both ways. `tests.support.skew.examples` makes them."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from penstock.config.declare import Carried
from penstock.config.model import JobConfig
from penstock.config.validate import check_layer, check_merged
from penstock.control.errors import InvalidConfig
from penstock.wire.jobs import LayerWrite
from services.state_syncer.store.recorded import expected_config
from tests.support.skew.examples import BEFORE, EXAMPLES, PRESENT, grown, name_of, written
from tests.support.store.jobs import make_layer

NEWER = {"from_newer": 3}


def test_the_recorded_examples_are_those_of_this_release() -> None:
    """If not: `python -m tests.support.skew.examples`, and see in the diff what the release before will meet."""
    assert json.loads(PRESENT.read_text()) == written()


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_what_the_release_before_wrote_is_read(example: Carried) -> None:
    before = json.loads(BEFORE.read_text()).get(name_of(example))
    if before is not None:  # it had no such message
        read = type(example).model_validate_json(json.dumps(before)).model_dump(mode="json")
        assert {name: read[name] for name in before} == before


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_what_a_newer_release_writes_is_read_and_carried(example: Carried) -> None:
    """Fields that are not known, in every part: kept, also when the model is changed and written again."""
    newer = grown(example, example.model_dump(mode="json"))
    assert "from_newer" in newer
    read = type(example).model_validate_json(json.dumps(newer))
    assert read.model_dump(mode="json") == newer
    assert read.model_copy(update={}).model_dump(mode="json") == newer


def test_what_users_send_stays_strict() -> None:
    with pytest.raises(InvalidConfig, match="there is no such field"):
        check_layer("base", make_layer() | NEWER)
    with pytest.raises(InvalidConfig):
        check_merged(make_layer() | NEWER)
    with pytest.raises(ValidationError):
        LayerWrite.model_validate({"config": {}, "reason": "r", **NEWER})


def test_a_layer_keeps_the_field_of_a_newer_release_when_an_older_one_writes_it() -> None:
    """1. A newer Job Service wrote fields, one deep. 2. An older one changes another field. 3. Nobody can add, change
    or misplace such a field through the older one."""
    stored = make_layer(inputs={"events": NEWER}) | NEWER
    changed = {**stored, "priority": 2}
    check_layer("base", changed, stored)
    merged = check_merged(changed, carries=True).model_dump(mode="json")
    assert (merged["from_newer"], merged["inputs"]["events"]["from_newer"], merged["priority"]) == (3, 3, 2)
    for wrong in ({**stored, "from_newer": 4}, {**stored, "other": 1}, {**stored, "output": stored["output"] | NEWER}):
        with pytest.raises(InvalidConfig, match="there is no such field"):
            check_layer("base", wrong, stored)
    misplaced = make_layer(output={"path": "/data"})
    with pytest.raises(InvalidConfig):
        check_merged(misplaced | NEWER, carries=True)


def test_a_state_syncer_of_the_release_before_carries_it_into_what_runs() -> None:
    config = expected_config([make_layer() | NEWER])
    assert isinstance(config, dict)
    assert config["from_newer"] == 3
    assert JobConfig.model_validate(config).model_dump(mode="json") == config
