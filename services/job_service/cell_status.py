"""Which parts of a cell are well, and what to do about the others. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.control.texts import first_few
from penstock.identity.roles import ROTATE, WARN_BELOW_DAYS, end_in_words
from penstock.wire.status import StatusLine, StatusView
from services.job_service.cell_facts import CellFacts, Leader, Probe

NEEDED_LOOPS = ("job_service.expiry", "shard_manager", "state_syncer")
"""Others, such as the Auto Scaler, may be left out of a cell."""
SLOW_STORE_SECONDS = 1.0


class Seen(NamedTuple):
    """What is known of a cell. `services`: by name. `buses`: each Kafka that this service knows, by the name of its
    cluster; None: the cell's own. `schema`: the version that this release needs. `store_seconds`: how long the store
    took to answer."""

    cell: CellFacts
    services: Mapping[str, Probe]
    buses: Mapping[str | None, Probe]
    schema: str
    store_seconds: float
    reports_old_seconds: float


def status_of(seen: Seen) -> StatusView:
    """A line for each part. A part that is well may have advice too."""
    parts = [*_loops(seen), *_services(seen), _store(seen), *_bus(seen), _containers(seen), _alerts(seen)]
    return StatusView(ok=all(line.ok for line in parts), parts=parts)


def _line(part: str, summary: str, advice: str | None, **details: object) -> StatusLine:
    return StatusLine(part=part, ok=advice is None, summary=summary, advice=advice, details=details)


def _loops(seen: Seen) -> Iterator[StatusLine]:
    leaders = {leader.loop: leader for leader in seen.cell.leaders}
    rounds = {each.loop: each for each in seen.cell.rounds}
    for loop in sorted({*NEEDED_LOOPS, *leaders, *rounds}):
        leader, newest = leaders.get(loop), rounds.get(loop)
        leads = _leads(leader)
        details = {
            "leader": None if leader is None else leader._asdict(),
            "round": None if newest is None else newest._asdict(),
        }
        if newest is None:
            yield _line(f"loop {loop}", f"{leads}; no round yet", f"start {_process(loop)}, or read its log", **details)
        elif newest.is_stalled:
            yield _line(f"loop {loop}", f"{leads}; {newest.trouble}", _advice_of_loop(loop, leader), **details)
        else:
            shown = f"{leads}; last round {newest.age_seconds:.0f} s ago, {newest.seconds:.2f} s long"
            failing = newest.error is not None
            summary = f"{shown}; it failed: {newest.error}" if failing else shown
            no_leader = leader is None or leader.seconds_left < 0
            yield _line(
                f"loop {loop}", summary, _advice_of_loop(loop, leader) if failing or no_leader else None, **details
            )


def _leads(leader: Leader | None) -> str:
    if leader is None:
        return "nobody leads"
    if leader.seconds_left < 0:
        return f"nobody leads since the lease of {leader.holder} ended"
    return f"{leader.holder} leads for {leader.seconds_left:.0f} s more, epoch {leader.epoch}"


def _process(loop: str) -> str:
    return f"the {loop.partition('.')[0]}"


def _advice_of_loop(loop: str, leader: Leader | None) -> str:
    if leader is None or leader.seconds_left < 0:
        return f"start {_process(loop)}: no process of it renews the lease"
    return f"read the log of {_process(loop)} {leader.holder}; if it says nothing new, restart it"


def _services(seen: Seen) -> Iterator[StatusLine]:
    for name, probe in seen.services.items():
        if probe.error is None:
            yield _answering(name, probe)
        else:
            advice = "start it, or restart it if it hangs; is the address right, and open to the Job Service?"
            summary = f"does not answer at {probe.address}: {probe.error}"
            yield _line(f"service {name}", summary, advice, address=probe.address, error=probe.error)


def _answering(name: str, probe: Probe) -> StatusLine:
    summary, days = f"answers at {probe.address}", probe.certificate_days_left
    if days is None:
        return _line(f"service {name}", summary, None, address=probe.address)
    advice = None
    if days < WARN_BELOW_DAYS:
        summary += f"; its certificate {end_in_words(days)}"
        advice = (
            "issue its certificate again by the command in its log, and bring the folder to it; "
            f"`{ROTATE}` only where all share one folder"
        )
    return _line(f"service {name}", summary, advice, address=probe.address, certificate_days_left=round(days, 1))


def _store(seen: Seen) -> StatusLine:
    facts = {"seconds": round(seen.store_seconds, 4), "schema": seen.cell.schema, "needed_schema": seen.schema}
    summary = f"answers in {seen.store_seconds * 1000:.0f} ms, schema {seen.cell.schema}"
    advice = None
    if seen.cell.schema != seen.schema:
        summary += f"; this release has {seen.schema}"
        advice = "bring all services to the release of the schema"
    elif seen.store_seconds > SLOW_STORE_SECONDS:
        advice = "look for load or locks in Postgres (pg_stat_activity)"
    return _line("store", summary, advice, **facts)


def _bus(seen: Seen) -> Iterator[StatusLine]:
    for cluster, probe in seen.buses.items():
        address, error, brokers = probe.address, probe.error, probe.brokers
        part = "bus" if cluster is None else f"bus {cluster}"
        if error is None and brokers:
            summary = f"{brokers} {'broker' if brokers == 1 else 'brokers'} at {address}"
            yield _line(part, summary, None, brokers=brokers)
        else:
            summary = f"no broker answers at {address}: {error or 'it names none'}"
            setting = "PENSTOCK_KAFKA_BOOTSTRAP" if cluster is None else f"{cluster} in PENSTOCK_KAFKA_CLUSTERS"
            advice = f"start Kafka, or correct {setting}"
            yield _line(part, summary, advice, brokers=brokers, error=error)


def _containers(seen: Seen) -> StatusLine:
    containers = seen.cell.containers
    live = [each for each in containers if each.is_live]
    silent = [
        each.name
        for each in live
        if each.report_age_seconds is None or each.report_age_seconds > seen.reports_old_seconds
    ]
    lost = [each.name for each in containers if not each.is_live]
    counts = Counter(each.availability if each.is_live else "lost" for each in containers)
    summary = ", ".join(f"{number} {state}" for state, number in sorted(counts.items())) or "none"
    advice = None
    if silent:
        summary += f"; no report for {seen.reports_old_seconds:.0f} s: {first_few(silent)}"
        every = len(silent) == len(live)
        advice = "start the Task Service" if every else "restart these Task Managers; can they reach the Task Service?"
    elif not any(each.availability == "open" for each in live):
        advice = "start a Task Manager, or `penstock uncordon` one: no container takes shards"
    line = _line("containers", summary, advice, **dict(counts), silent=silent)
    if lost:
        # No reason to call the cell unwell: the tasks run elsewhere.
        told = f"{first_few(lost)} may come back; else `penstock forget NAME`"
        line = line.model_copy(update={"advice": "; ".join(filter(None, (advice, told)))})
    return line


def _alerts(seen: Seen) -> StatusLine:
    alerts = seen.cell.alerts
    if not alerts:
        return _line("alerts", "none is open", None)
    summary = ", ".join(f"{number} {kind}" for kind, number in alerts.items())
    return _line("alerts", summary, "`penstock alerts`; services/ALERTS.md says what to do about each", **alerts)
