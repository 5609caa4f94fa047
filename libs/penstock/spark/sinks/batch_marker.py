"""What to do with a batch, given the marker that the last one left in the target database.

The marker of a task's generation holds the id of the batch that was written last and of the query (the id in the
checkpoint's metadata). Spark runs batches in order and repeats only the last one, so:

    marker                        batch        means                                         decision
    none                          any          first batch here                              write
    n, same query                 n            written, not committed in the checkpoint      skip
    n, same query                 n + 1        the next one                                  write
    n, same query                 below n      the checkpoint went back                      fail
    n, same query                 above n + 1  the database went back, or was another one    fail
    n, another query              any          another checkpoint under the same generation  fail
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.control.errors import BrokenCheckpoint


class Marker(NamedTuple):
    """The last batch of a task's generation that the database has."""

    batch_id: int
    query_id: str


def is_written(marker: Marker | None, batch_id: int, query_id: str) -> bool:
    """Whether the table above says skip. Raises BrokenCheckpoint where it says fail."""
    if marker is None:
        return False
    if marker.query_id != query_id:
        raise BrokenCheckpoint(
            f"batch {batch_id} comes from query {query_id}, but the database has batches of query {marker.query_id} "
            "for the same task and generation: the checkpoint was replaced, or another cell has a job of this name; "
            "choose another name, or delete the job's rows of penstock_batches to write on"
        )
    if batch_id < marker.batch_id:
        raise BrokenCheckpoint(
            f"batch {batch_id} was run again, but the database has batch {marker.batch_id}: the checkpoint went back"
        )
    if batch_id > marker.batch_id + 1:
        raise BrokenCheckpoint(
            f"batch {batch_id} would leave a gap after batch {marker.batch_id}, the last one in the database: the "
            "database went back, or the task wrote to another one; delete the task's row of penstock_batches to "
            "accept the gap"
        )
    return batch_id == marker.batch_id
