"""A package that goes out, on the pages of its job: how far it is, and the forms that pause, resume and abort it."""

from __future__ import annotations

from tests.integration.console.conftest import SignedIn
from tests.integration.console.test_pages import text_of
from tests.support.console.service import User
from tests.support.state_syncer.rollouts import RolloutCell

CHANGE = "/jobs/j/change"


def order(user: User, name: str, reason: str = "a test") -> int:
    return user.post(f"/jobs/j/rollout/{name}", {"reason": reason}, CHANGE).status_code


def test_a_rollout_is_paused_resumed_and_aborted(rollout: RolloutCell, user: User) -> None:
    assert "rolling wave 1 of 3; 1 of 3 tasks (33 %) have it or get it now" in text_of(user.get("/jobs/j"))
    assert "/rollout/resume" not in user.get(CHANGE)
    assert order(user, "pause", "a look at it") == 303
    seen = text_of(user.get("/jobs/j"))
    assert "paused wave 1 of 3" in seen
    assert "pause, asked for by admin" in seen
    assert "a look at it" in seen
    assert order(user, "resume") == 303
    assert order(user, "abort", "wrong figures") == 303
    rollout.rounds(4)
    assert (rollout.changes[-1], rollout.client.get_layer("j", "rollback").config["package"]["version"]) == (
        ["1"] * 3,
        "1",
    )
    assert "goes out" not in user.get("/jobs/j")


def test_what_cannot_be_done_is_told_beside_its_form(rollout: RolloutCell, user: User) -> None:
    answer = user.post("/jobs/j/rollout/pause", {"reason": ""}, CHANGE)
    assert answer.status_code == 422
    assert 'id="pause-reason-error"' in answer.text
    assert order(user, "resume") == 422, "nobody paused it"
    assert order(user, "forget") == 404
    assert rollout.client.rollout("j").order is None


def test_a_reader_has_no_form_and_is_refused(rollout: RolloutCell, signed_in: SignedIn) -> None:
    reader = signed_in("reader")
    assert "/rollout/" not in reader.get(CHANGE)
    assert "Pause, resume or abort" not in reader.get("/jobs/j")
    assert reader.post("/jobs/j/rollout/abort", {"reason": "a test"}).status_code == 403
    assert rollout.client.rollout("j").order is None
