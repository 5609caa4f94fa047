"""Object stores: which jars they need, and what is wrong when one cannot be used. Pure, but for the look at jars.

`PENSTOCK_CHECKPOINT_ROOT` and `PENSTOCK_PATH_ROOTS` name them by scheme (`s3a://bucket/folder`). Their jars are not
among those of every installation: `python -m penstock.local.jars s3` fetches them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from penstock.control.errors import Unavailable

JARS_OF: Mapping[str, str] = {"s3a": "s3", "gs": "gcs", "abfs": "abfs", "abfss": "abfs"}
"""By scheme of a path: the folder of jars that it needs."""
HAS_NO_FOLDERS = frozenset({"s3a", "gs"})
"""Schemes of stores whose folders are beginnings of names: they cannot be renamed in one step."""
PATH_READABLE = "path_readable"
"""The rule of a path that the host's account or login may not read."""
STORE_LOGIN = "store_login"
"""The rule of a login that a store refuses, or that is missing: the container's, not the job's."""

_CREDENTIALS = {
    "s3": "an IAM role of the machine, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY named in "
    "PENSTOCK_HOST_ENVIRONMENT",
    "gcs": "a service account of the machine, or GOOGLE_APPLICATION_CREDENTIALS named in PENSTOCK_HOST_ENVIRONMENT",
    "abfs": "the login of the account in core-site.xml of HADOOP_CONF_DIR",
}
_NO_JAR = re.compile(r'Class org\.apache\.hadoop\.fs\.\S+ not found|No FileSystem for scheme "?\w+|NoClassDefFound')
_NO_BUCKET = re.compile(r"UnknownStoreException|NoSuchBucket|FilesystemNotFound|Bucket does not exist")
_NO_LOGIN = re.compile(r"NoAuthWithAWSException|NoAwsCredentials|No AWS Credentials|Unable to load credentials")
_WRONG_LOGIN = re.compile(r"InvalidAccessKeyId|SignatureDoesNotMatch|Status Code: 401|ExpiredToken")
_DENIED = re.compile(r"java\.nio\.file\.AccessDeniedException|AccessDenied|Status Code: 403|StatusCode=403")
_RIGHTS = "it needs to list, read, write and delete"
_SILENT = re.compile(r"ConnectException|UnknownHostException|ConnectTimeoutException|Connection refused")


_LOGIN = re.compile(
    r"(?:spark\.hadoop\.)?fs\.(?:s3a\.(?:bucket\.[^.]+\.)?(?:access\.key|secret\.key|session\.token)"
    r"|azure\.(?:account\.key|account\.oauth2\.client\.secret|sas\.)\S*|gs\.auth\.\S*(?:private\.key|secret)\S*)"
)


def logins_in(spark_conf: Iterable[str]) -> list[str]:
    """The names of Spark's settings that hold the login of a store."""
    return sorted(name for name in spark_conf if _LOGIN.fullmatch(name))


def scheme_of(path: str) -> str:
    """The scheme of a Hadoop path, in small letters; empty for a plain path."""
    return urlsplit(path).scheme.lower()


def jar_folders(paths: Iterable[str], jars: Path) -> list[Path]:
    """The folders of jars that the file systems of these paths need besides Spark's own, below the folder of jars."""
    schemes = {scheme_of(path) for path in paths} & JARS_OF.keys()
    return [jars / name for name in sorted({JARS_OF[scheme] for scheme in schemes})]


def missing_jars(paths: Iterable[str], jars: Path) -> list[str]:
    """What to fetch for these paths: `s3`, `gcs`, `abfs`."""
    return [folder.name for folder in jar_folders(paths, jars) if not any(folder.glob("*.jar"))]


def fetch_advice(names: Iterable[str]) -> str:
    """How jars of stores are fetched."""
    return f"run `python -m penstock.local.jars {' '.join(names)}`, also where Task Managers run"


def store_problem(path: str, error: Exception) -> Unavailable | None:
    """What to do about an error of the store that a path is on; None for errors that are not of a store as a whole.

    Where the store, or the lack of its jars or a login, has said no, `extra` has the `rule` that is broken:
    `store_jars`, `path_exists`, `STORE_LOGIN` or `PATH_READABLE`. A store that does not answer has said nothing."""
    jars = JARS_OF.get(scheme_of(path))
    return None if jars is None else _problem(path, jars, str(error))


def _problem(path: str, jars: str, text: str) -> Unavailable | None:
    parts = urlsplit(path)
    store = f"{parts.scheme}://{parts.netloc}"
    login = f"it takes {_CREDENTIALS[jars]}"
    told = (
        (_NO_JAR, "store_jars", f"{path}: there are no jars for {parts.scheme}: {fetch_advice([jars])}"),
        (_NO_BUCKET, "path_exists", f"{path}: there is no bucket {store}: make it, or correct the path"),
        (_NO_LOGIN, STORE_LOGIN, f"{path}: the host has no login for {store}: {login}"),
        (_WRONG_LOGIN, STORE_LOGIN, f"{path}: {store} does not know the host's login: {login}"),
        (_DENIED, PATH_READABLE, f"{path}: the host's login may not do that in {store}: {_RIGHTS}"),
    )
    for pattern, rule, detail in told:
        if pattern.search(text):
            return Unavailable(detail, rule=rule)
    return Unavailable(f"{path}: {store} does not answer") if _SILENT.search(text) else None
