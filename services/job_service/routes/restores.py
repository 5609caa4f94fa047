"""A restore that is taken back."""

from __future__ import annotations

from fastapi import Response
from sqlalchemy import Connection

from penstock.control.errors import Conflict
from penstock.model.jobs import Action
from penstock.wire.jobs import Written
from services.job_service import access, requests
from services.job_service.answers import Answer, answer
from services.job_service.requests import CallOf, JobName, known_job, respond
from services.job_service.store import savepoints
from services.job_service.writes import Write

router = requests.router_of("savepoints")


@router.delete("/v1/jobs/{job}/restore", response_model=Written, status_code=202)
@requests.needs(access.of_role(access.MAY_OPERATE))
def cancel_restore(
    job: JobName, call: CallOf, reason: requests.Text = "", allow_repeats: requests.AllowRepeats = False
) -> Response:
    """Cancels a restore: the job continues from its own checkpoints. 409 once those are given up. What the restore
    wrote to a layer (`task_count`, `with_package`) stays. A job that never ran starts without state: where it may then
    write rows again that other jobs read, 409 unless `allow_repeats` is true, or the job is to be stopped."""

    def work(connection: Connection) -> Answer:
        known_job(connection, job, lock=True)
        number = savepoints.cancel_restore(connection, job)
        if number is None:
            raise Conflict(f"no restore of {job} is in progress", field="job", rule="restoring")
        # The State Syncer locks the row of a restore when it gives the old checkpoints up: this is read afterwards.
        if savepoints.is_past_return(connection, job, number):
            raise Conflict(
                f"the restore of {job} can no longer be cancelled: its old checkpoints are given up. "
                "Restore it from a later savepoint",
                field="job",
                rule="not_committed",
            )
        write = Write(Action.CANCEL_RESTORE, job, call.author, reason=reason, allow_repeats=allow_repeats)
        return answer(202, call.write_in(connection, write))

    return respond(call.run(work))
