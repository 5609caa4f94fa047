"""Packages: whether one may be deleted."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from sqlalchemy import Connection

from penstock.config.model import PACKAGE_VERSION
from services.job_service import access, requests
from services.job_service.answers import Answer
from services.job_service.requests import CallOf, respond
from services.job_service.store import packages

router = requests.router_of("packages")
PackageName = Annotated[str, requests.is_name("package"), requests.in_path("package")]
Version = Annotated[str, Path(description="the package's version", pattern=PACKAGE_VERSION)]


@router.delete("/v1/packages/{package}/{version}", status_code=204, response_class=Response)
@requests.needs(access.of_role(access.MAY_DELETE_PACKAGES))
def delete_package(package: PackageName, version: Version, call: CallOf) -> Response:
    """Records that a version is deleted, so that no write which has begun takes it; its file is the caller's. May be
    repeated. 409 while a job uses it."""

    def work(connection: Connection) -> Answer:
        packages.delete(connection, package, version)
        return Answer(204, None)

    return respond(call.run(work))
