"""The values that a job may give to a Spark setting."""

from __future__ import annotations

import pytest

from penstock.config.spark_settings import ALLOWED_VALUES
from penstock.config.validate import check_merged
from penstock.control.errors import InvalidConfig
from tests.support.config.jobs import job

STATE = "spark.sql.streaming.stateStore."
CASES = [
    ("spark.sql.ansi.enabled", ["true", "false"], ["", "True ", "yes", "1", "TRUE"]),
    ("spark.sql.autoBroadcastJoinThreshold", ["-1", "0", "10mb", "1g"], ["-2", "2g", "10 mb", "1e6", "٣"]),
    ("spark.sql.broadcastTimeout", ["1", "300"], ["0", "-1", "forever", "99999", "1.5"]),
    ("spark.sql.files.maxPartitionBytes", ["134217728", "128MB"], ["1", "0", "-1", "1tb"]),
    ("spark.sql.files.maxRecordsPerFile", ["0", "1000"], ["1", "-1"]),
    ("spark.sql.mapKeyDedupPolicy", ["LAST_WIN"], ["last", "LAST"]),
    (
        "spark.sql.session.timeZone",
        ["UTC", "Z", "GMT", "Europe/Berlin", "+01:00", "-11:30", "America/Argentina/Salta", "Etc/GMT+5"],
        ["", "Europe/Berln", "../../etc/passwd", "posix/Europe/Berlin", "+19:00", "localtime", "CEST", "Europe/../x"],
    ),
    (f"{STATE}compression.codec", ["lz4", "zstd"], ["gzip", "com.example.Codec"]),
    (f"{STATE}minDeltasForSnapshot", ["1", "10"], ["0", "-5", "99999999999999999999"]),
    (f"{STATE}rocksdb.blockCacheSizeMB", ["8"], ["0", "1000000"]),
    (f"{STATE}rocksdb.maxOpenFiles", ["-1", "64"], ["-2", "0"]),
    ("spark.sql.adaptive.skewJoin.skewedPartitionFactor", ["5", "1.5"], ["0", "NaN", "Infinity", "-1"]),
]


@pytest.mark.parametrize(("setting", "good", "bad"), CASES, ids=[case[0] for case in CASES])
def test_a_value_is_refused_with_field_and_rule(setting: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        assert check_merged(job({"spark_settings": {setting: value}})).spark_settings == {setting: value}
    for value in bad:
        with pytest.raises(InvalidConfig) as refused:
            check_merged(job({"spark_settings": {setting: value}}))
        assert (refused.value.field, refused.value.rule) == (f"spark_settings.{setting}", "spark_setting_value"), value
        assert ALLOWED_VALUES[setting].text in refused.value.detail
