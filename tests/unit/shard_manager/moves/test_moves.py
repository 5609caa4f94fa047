"""The state machine of moves: stories."""

from __future__ import annotations

import pytest

from services.shard_manager.moves.moves import (
    Added,
    Dropped,
    IllegalMove,
    Moves,
    Order,
    Phase,
    Planned,
    Recorded,
)

PLANNED = Planned(shard=7, epoch=10, source="a", destination="b")


@pytest.fixture
def moves() -> Moves:
    return Moves(drop_retry_seconds=15.0, add_limit_seconds=30.0)


def phases(moves: Moves) -> list[Phase]:
    return [move.phase for move in moves]


def test_a_move_from_drop_to_add(moves):
    """1. DROP goes out. 2. SUCCESS: it may be recorded. 3. Recorded: ADD goes out. 4. SUCCESS: done."""
    assert moves.handle([PLANNED], now=0.0) == [Order("drop", 7, 10, "a")]
    assert moves.to_record() == []
    assert moves.handle([Dropped(7, 10)], now=1.0) == []
    assert [move.shard for move in moves.to_record()] == [7]
    assert moves.handle([Recorded(7, 10, 11, "b")], now=2.0) == [Order("add", 7, 11, "b")]
    assert moves.handle([Added(7, 11)], now=3.0) == []
    assert len(moves) == 0


def test_no_answer_to_a_drop_is_no_drop(moves):
    """1. DROP is not answered. 2. Nothing is recorded, however long. 3. DROP goes out again."""
    moves.handle([PLANNED], now=0.0)
    assert moves.to_record() == []
    assert moves.retries(now=14.9) == []
    assert moves.retries(now=15.0) == [Order("drop", 7, 10, "a")]
    assert moves.retries(now=20.0) == []
    assert moves.to_record() == []


def test_a_shard_whose_drop_is_not_answered_is_withheld_until_its_new_owner_is_recorded(moves):
    moves.handle([PLANNED], now=0.0)
    assert moves.withheld() == frozenset()
    moves.retries(now=15.0)
    assert moves.withheld() == {7}
    moves.handle([Dropped(7, 10)], now=16.0)
    assert moves.withheld() == {7}
    moves.handle([Recorded(7, 10, 11, "b")], now=17.0)
    assert moves.withheld() == frozenset()


def test_a_free_shard_is_recorded_and_added(moves):
    assert moves.handle([Planned(7, 10, None, "b")], now=0.0) == []
    assert [move.destination for move in moves.to_record()] == ["b"]
    assert moves.handle([Recorded(7, 10, 11, "c")], now=0.0) == [Order("add", 7, 11, "c")]


def test_a_shard_without_a_place_is_taken_off_and_owned_by_nobody(moves):
    """1. DROP goes out. 2. Only its answer lets it be recorded. 3. Recorded: the move is over, without an ADD."""
    assert moves.handle([Planned(7, 10, "a", None)], now=0.0) == [Order("drop", 7, 10, "a")]
    assert moves.to_record() == []
    moves.handle([Dropped(7, 10)], now=2.0)
    assert [move.destination for move in moves.to_record()] == [None]
    assert moves.handle([Recorded(7, 10, 11, None)], now=3.0) == []
    assert len(moves) == 0


def test_a_place_that_is_found_after_the_drop_is_taken(moves):
    moves.handle([Planned(7, 10, "a", None), Dropped(7, 10)], now=0.0)
    assert moves.handle([Recorded(7, 10, 11, "b")], now=1.0) == [Order("add", 7, 11, "b")]


def test_a_record_that_failed_is_tried_again(moves):
    """The store is away: the shard stays to be recorded until the store says that it is."""
    moves.handle([PLANNED, Dropped(7, 10)], now=0.0)
    assert len(moves.to_record()) == len(moves.to_record()) == 1


def test_echoes_of_older_orders_change_nothing(moves):
    moves.handle([PLANNED], now=0.0)
    moves.handle([Dropped(7, 9), Recorded(7, 9, 10, "x"), Added(7, 9), Dropped(8, 10)], now=0.0)
    assert phases(moves) == [Phase.DROPPING]


def test_answers_that_come_twice_change_nothing(moves):
    moves.handle([PLANNED, Dropped(7, 10), Dropped(7, 10)], now=0.0)
    assert phases(moves) == [Phase.DROPPED]


def test_a_destination_that_drops_the_shard_at_once_gives_it_up(moves):
    moves.handle([Planned(7, 10, None, "b"), Recorded(7, 10, 11, "b"), Dropped(7, 11)], now=0.0)
    assert phases(moves) == [Phase.DROPPED]


def test_an_unconfirmed_add_ends_the_watch(moves):
    moves.handle([Planned(7, 10, None, "b"), Recorded(7, 10, 11, "b")], now=0.0)
    assert moves.unconfirmed(now=29.0) == []
    assert [move.shard for move in moves.unconfirmed(now=30.0)] == [7]
    assert len(moves) == 0


def test_a_heartbeat_that_holds_the_shard_confirms_it(moves):
    moves.handle([Planned(7, 10, None, "b"), Recorded(7, 10, 11, "b")], now=0.0)
    assert moves.confirmed(lambda *said: said == (7, 10)) == []
    assert [move.shard for move in moves.confirmed(lambda *said: said == (7, 11))] == [7]


def test_a_fail_over_overtakes_a_move(moves):
    """The source was lost in mid-move: the store has a newer epoch, and late answers find nothing."""
    moves.handle([PLANNED], now=0.0)
    assert [move.shard for move in moves.forget_outdated({7: 12})] == [7]
    assert moves.handle([Dropped(7, 10)], now=1.0) == []
    assert len(moves) == 0


@pytest.mark.parametrize("event", [Recorded(7, 10, 11, "b"), PLANNED, Planned(7, 10, None, "b")])
def test_recording_or_planning_before_the_drop_is_a_bug(moves, event):
    moves.handle([PLANNED], now=0.0)
    with pytest.raises(IllegalMove, match="shard=7"):
        moves.handle([event], now=1.0)
