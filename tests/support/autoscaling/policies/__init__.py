"""The policies that are compared, by their names in the report."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.autoscaling.policies.dhalion import Dhalion
from tests.support.autoscaling.policies.ds2 import Ds2
from tests.support.autoscaling.policies.flink import FlinkAutoscaler
from tests.support.autoscaling.policies.hpa import Hpa
from tests.support.autoscaling.policies.keda import Keda, KedaFitted
from tests.support.autoscaling.policies.penstock import Penstock, Proactive, Reactive
from tests.support.autoscaling.policies.static import Static
from tests.support.autoscaling.seen import NewPolicy

POLICIES: Mapping[str, NewPolicy] = {
    "penstock": Penstock,
    "static_peak": Static,
    "hpa": Hpa,
    "keda": Keda,
    "keda_fitted": KedaFitted,
    "dhalion": Dhalion,
    "ds2": Ds2,
    "flink_autoscaler": FlinkAutoscaler,
}

ABLATION: Mapping[str, NewPolicy] = {"reactive": Reactive, "proactive": Proactive, "penstock": Penstock}
