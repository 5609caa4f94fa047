"""Whether a container may take the shard of a task that is to move."""

from __future__ import annotations

import pytest

from penstock.control.errors import Conflict
from penstock.tasks.dimensions import CPU, MEMORY
from penstock.tasks.loads import TaskLoad
from penstock.tasks.ownership import Member
from services.job_service.takers import Leaving, Offer, job_tasks, least_load, require_taker

LEAVING = Leaving("j/0", 7, "a", "eu", frozenset("a"), {CPU: 1.0})


def offer(name: str, region: str = "eu", cores: float | None = 2.0, availability: str = "open") -> Offer:
    member = Member(name, "life", f"http://{name}", region, 2.0, 1, 1, availability=availability)
    return Offer(member, {} if cores is None else {CPU: cores})


def test_a_taker_is_enough() -> None:
    assert require_taker(LEAVING, [offer("a"), offer("b", cores=0.5), offer("c")]) is None


def test_a_taker_that_nothing_is_known_of_is_named() -> None:
    assert require_taker(LEAVING, [offer("b", cores=None)]) == "no placement has told yet what b has room for"


def test_a_refusal_says_what_keeps_each_container() -> None:
    west = [offer(name, region="us") for name in "cdefg"]
    offers = [offer("a"), offer("b", availability="cordoned"), *west, offer("h", cores=0.5)]
    with pytest.raises(Conflict) as refused:
        require_taker(LEAVING, offers)
    assert refused.value.detail == (
        "no other container than a may take shard 7, where j/0 is: b (cordoned); c, d, e and 2 others (not in region"
        " eu); h (too small in cpu_cores)"
    )


def test_a_refusal_without_others() -> None:
    with pytest.raises(Conflict, match="j/0 is: no other one is live"):
        require_taker(LEAVING, [offer("a")])


def test_the_least_load_of_tasks_assumes_nothing() -> None:
    """1. Another task of the job says what one uses, before the reservation does. 2. A task with its own process counts
    its reservation. 3. Of the memory nothing is known: that is no 400 MiB."""
    job = job_tasks("j", {"resources": {CPU: 3.0}}, 1, 3)
    reported = [TaskLoad("j", 0, 1, {CPU: 1.0}), TaskLoad("j", 1, 0, {CPU: 9.0})]
    assert least_load(job, [0, 2], reported)[CPU] == 2.0
    assert least_load(job, [0, 2], [])[CPU] == 6.0
    assert least_load(job._replace(has_own_processes=True), [0], reported)[CPU] == 3.0
    assert least_load(job, [0], reported)[MEMORY] == 0.0
