"""The faults of a seed."""

from __future__ import annotations

from tests.support.chaos.timetable import Kind, Pace, Targets, timetable

TARGETS = Targets(("a>b", "c>d", "store"), ("shard_manager",), ("task_manager_1", "task_manager_2"), ("kafka",))
PACE = Pace(seconds=600, pause=(0.5, 2.0), short=(1, 3), long=(10, 20), long_share=0.5)


def test_a_seed_has_always_the_same_faults_and_another_has_others():
    assert timetable(7, TARGETS, PACE) == timetable(7, TARGETS, PACE) != timetable(8, TARGETS, PACE)


def test_every_kind_happens_and_all_is_over_in_time():
    faults = timetable(1, TARGETS, PACE)
    assert {fault.kind for fault in faults} == set(Kind)
    assert all(fault.ends_s <= PACE.seconds for fault in faults)


def test_servers_are_left_alone_where_none_is_named():
    faults = timetable(1, TARGETS._replace(servers=()), PACE)
    assert {fault.kind for fault in faults} == set(Kind) - {Kind.KILL_SERVER}


def test_a_target_has_one_fault_at_a_time_and_no_moment_more_than_three():
    faults = timetable(1, TARGETS, PACE)
    for fault in faults:
        lasting = [other.target for other in faults if other.at_s <= fault.at_s < other.ends_s]
        assert len(lasting) == len(set(lasting)) <= 3
