"""Profiles of a job: ask for one, list, read."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Path, Response
from sqlalchemy import Connection

from penstock.control.errors import NotFound
from penstock.store.engine import snapshot
from penstock.wire.profiles import ProfilePage, ProfileView, ProfileWrite
from services.job_service import access, requests
from services.job_service.answers import Answer, answer
from services.job_service.requests import CallOf, JobName, PageOf100, PartsOf, expected_config, known_job, respond
from services.job_service.store import profiles

router = requests.router_of("profiles")
ProfileNumber = Annotated[int, Path(ge=1, le=2**62, description="the profile's number")]
ProfileBody = Annotated[ProfileWrite, Body(default_factory=ProfileWrite)]


@router.post("/v1/jobs/{job}/profiles", response_model=ProfileView, status_code=202)
@requests.needs(access.of_role(access.MAY_PROFILE))
def create_profile(job: JobName, body: ProfileBody, call: CallOf) -> Response:
    """Has a Spark host measure how many rows per second one task of the job gets through.

    It runs the expected query on the inputs from their beginning, and throws the results away: nothing is written. The
    job need not run. The Auto Scaler uses the rate until the job's own tasks have been busy for some minutes.
    """

    def work(connection: Connection) -> Answer:
        stored = known_job(connection, job, lock=True)
        config = expected_config(connection, job).model_dump(mode="json")
        row = profiles.ask(
            connection,
            job=job,
            seconds=body.seconds,
            revision=stored.revision,
            config=config,
            author=call.author,
            reason=body.reason,
        )
        return answer(202, ProfileView.model_validate(row))

    return respond(call.run(work))


@router.get("/v1/jobs/{job}/profiles", response_model=ProfilePage)
def list_profiles(job: JobName, parts: PartsOf, page: PageOf100) -> ProfilePage:
    """The profiles of a job that are kept (ten), newest first."""
    before = page.after_number()
    with snapshot(parts.engine) as connection:
        known_job(connection, job)
        rows = profiles.page(connection, job, limit=page.limit, before=before)
    found = [ProfileView.model_validate(row) for row in rows]
    return ProfilePage(profiles=found, next=page.next(rows, lambda row: row.number))


@router.get("/v1/jobs/{job}/profiles/{profile}", response_model=ProfileView)
def get_profile(job: JobName, profile: ProfileNumber, parts: PartsOf) -> ProfileView:
    """One profile."""
    with snapshot(parts.engine) as connection:
        row = profiles.read(connection, job, profile)
    if row is None:
        raise NotFound(f"{job} has no profile {profile}", field="profile", rule="known")
    return ProfileView.model_validate(row)
