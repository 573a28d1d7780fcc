"""The features of the interaction matrix: how each is switched on, and the counter that shows that it acted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.interactions import changes as to
from tests.interactions import counters as count
from tests.interactions.counters import Change, Counter
from tests.interactions.worlds import USERS, Draft
from wattqueue.kernels import codes
from wattqueue.model.power_sensor import PowerSensor


@dataclass(frozen=True)
class Feature:
    """A row of the matrix."""

    name: str
    group: str
    """Features of one group stand together in the page."""
    on: Change
    """Switches it on."""
    acted: Counter
    """How often it acted in a run; 0 for not at all."""
    counts: str
    """What ``acted`` counts, for the page."""
    claims: Mapping[str, str] = field(default_factory=dict)
    """What it decides: choices of the policy, figures of the machine. Two features that decide one thing differently
    cannot meet."""
    wants: Change = to.nothing
    """What it adds where no other feature has decided it, after all of them are switched on."""
    off: Change | None = None
    """Switches it off again, for counters that compare."""


def part(axis: str, name: str, chosen: object, acted: Counter, counts: str, **more: Any) -> Feature:
    """A feature that is a choice of the policy."""
    plain = {"part": name} | chosen if isinstance(chosen, dict) else chosen
    on = to.choose(**{axis: plain}) if chosen is not None else to.nothing
    settings: dict[str, Any] = {"claims": {axis: name}, "off": to.unset(axis), "on": on, **more}
    return Feature(f"{axis} {name}", axis, acted=acted, counts=counts, **settings)


def of_control(name: str, acted: Counter, counts: str, wants: Change = to.nothing) -> Feature:
    """A feature that is a stock control."""
    return Feature(f"control {name}", "controls", to.control(name), acted, counts, wants=wants)


DIFFERS = "jobs that start, or are placed, otherwise than without it"
NEW_MARGIN = "instants at which the margin alone holds back the head of the queue"
OVERTAKES = "instants at which a job overtakes one that waits"
SLOWED = "jobs that ran below the highest frequency"
PLANNED = "instants at which a job is planned at less than its walltime"
HISTORY = {"estimator": "history-mean"}


def learns(draft: Draft) -> None:
    """Predict by history where nothing else was chosen."""
    to.default(draft, estimator="history-mean")


def senses(draft: Draft) -> None:
    to.add_sensor(draft)


def with_ramps(draft: Draft) -> None:
    to.ramps(draft)


LEDGERS = [
    part("ledger", "predicted", "predicted", count.instants(count.waits_for_watts),
         "instants at which the head of the queue waits for watts alone"),
    part("ledger", "chance", {"epsilon": 0.05}, count.instants(count.held_by_margin), NEW_MARGIN, wants=learns),
    part("ledger", "adaptive", {"epsilon": 0.05, "meter_s": 7.0, "window_days": 0.01, "begin": 2.0},
         lambda seen: seen.trace.readings and count.instants(count.held_by_margin)(seen),
         f"{NEW_MARGIN}, once the meter was read", wants=learns),
    part("ledger", "measured", "measured", count.senses,
         "instants with samples of busy sensors", wants=senses),
    part("ledger", "in-flight", {"even_s": 30.0}, count.instants(count.counted_otherwise),
         "instants at which a running job counts a corrected prediction", wants=senses),
    part("ledger", "ramped", "ramped",
         count.at(lambda now: bool(now.scalars.cap_uw < now.scalars.stated_cap_uw)),
         "instants at which the ramp is the limit", wants=with_ramps),
    part("ledger", "margin in Python", to.KeepsFree, count.instants(count.held_by_margin), NEW_MARGIN),
]  # fmt: skip

CONTROLS = [
    of_control("idle-off", count.at(count.not_on(codes.UNIT_OFF)), "instants with nodes that are off"),
    of_control("target-off", count.at(count.not_on(codes.UNIT_OFF)), "instants with nodes that are off",
               to.add_targets),
    of_control("target-drain", count.at(
        lambda now: bool(np.isin(now.unit_state, (codes.UNIT_DRAINING, codes.UNIT_OFF)).any())),
        "instants with nodes that drain, or are off", to.add_targets),
    of_control("slow-consenting", count.changes(count.changed_option), "running jobs whose frequency changes",
               to.windows_by_consent),
    Feature("control delay-consenting", "controls", to.by_price, count.differs, DIFFERS, wants=to.consents_to_delays,
            off=to.not_by_price),
    of_control("park-consenting", count.at(lambda now: bool(now.parked.any())),
               "instants with suspended jobs", to.uses_consent),
    of_control("rapl-redistribution", count.at(lambda now: now.limited), "instants with limits in force",
               senses),
    of_control("rapl-lending", count.at(lambda now: now.limited), "instants with limits in force", senses),
    of_control("rapl-at-counted", count.at(lambda now: now.limited), "instants with limits in force"),
    Feature("control lower-measured", "controls", to.lowers_measured,
            count.at(lambda now: now.slowest < 1.0 or bool(now.parked.any())),
            "instants at which a limit slows a device, or a job is suspended", wants=to.exceeds),
    Feature("control suspends", "controls", to.scripted(to.suspend_some),
            count.at(lambda now: bool(now.parked.any())), "instants with suspended jobs"),
    Feature("control requeues, work kept", "controls", to.requeues,
            lambda seen: int((seen.trace.run.checkpointed_s > 0).sum()), "jobs that kept work over a requeue"),
    Feature("control changes frequencies", "controls", to.scripted(to.change_frequencies),
            count.changes(count.changed_option), "running jobs whose frequency changes"),
    Feature("control limits devices", "controls", to.scripted(to.limit_devices, 15.0),
            count.at(lambda now: now.slowest < 1.0), "instants at which a limit slows a device"),
]  # fmt: skip

FREQUENCIES = [
    part("frequency", "frequency-window", {"lowest_hz": 0.0}, count.lower_options, SLOWED),
    part("frequency", "least-distance", "least-distance", count.lower_options, SLOWED),
    part("frequency", "least-distance-or-lower", "least-distance-or-lower", count.lower_options, SLOWED),
    part("frequency", "least-energy", "least-energy", count.lower_options, SLOWED),
    part("frequency", "consent", ["least-distance-or-lower", "consent"], count.lower_options, SLOWED,
         wants=to.uses_consent),
    part("frequency", "capped-windows", None, count.differs, DIFFERS, on=to.capped_windows,
         off=to.choose(frequency=to.WINDOW), wants=to.moving_cap),
    part("frequency", "target-at-start", "target-at-start", count.lower_options, SLOWED, wants=to.uses_consent),
    part("frequency", "target-at-submission", "target-at-submission", count.lower_options, SLOWED,
         wants=to.uses_consent),
]  # fmt: skip

PLACEMENTS = [
    part("placement", "benchmark", None, count.differs, DIFFERS, on=to.benchmark),
    part("placement", "least-watts", "least-watts", count.differs, DIFFERS,
         claims={"placement": "least-watts", "estimator": "unit-watts"}, wants=to.factors),
    part("placement", "least-watts by time", {"part": "least-watts", "by": "time"}, count.differs, DIFFERS,
         claims={"placement": "least-watts by time", "estimator": "corrected"}, wants=to.corrected),
]  # fmt: skip

BACKFILLS = [
    part("backfill", "none", "none", count.differs, DIFFERS),
    part("backfill", "first-fit", "first-fit", count.changes(count.overtaken), OVERTAKES),
    part("backfill", "easy", "easy", count.changes(count.backfilled),
         "instants at which a job overtakes one that holds a reservation"),
    part("backfill", "easy-sjbf", "easy-sjbf", count.differs, DIFFERS),
    part("backfill", "easy-ahead", "easy-ahead", count.differs, DIFFERS, wants=to.uses_consent),
    part("backfill", "conservative", "conservative", count.changes(count.overtaken), OVERTAKES),
    part("backfill", "easy, limits ahead", {"part": "easy", "ahead": "limits"}, count.differs, DIFFERS,
         wants=to.moving_cap),
    part("backfill", "conservative, limits ahead", {"part": "conservative", "ahead": "limits"}, count.differs, DIFFERS,
         wants=to.moving_cap),
    part("backfill", "cwm", {"pass_interval_s": 10.0}, count.changes(count.overtaken), OVERTAKES),
    part("backfill", "announced-caps", {"overtake": True}, count.differs, DIFFERS, wants=to.moving_cap),
    part("backfill", "pass in Python", to.InTurn, count.changes(count.overtaken), OVERTAKES),
]  # fmt: skip

ORDERS = [
    part("order", "slurm-priority", "slurm-priority", count.differs, DIFFERS, wants=to.site_priorities),
    part("order", "disallowed-first", {"ahead_s": 30.0}, count.differs, DIFFERS, wants=to.add_consent),
    part("order", "earliest-end", "earliest-end", count.differs, DIFFERS),
    part("order", "penalised", {"users": list(USERS[:1])}, count.differs, DIFFERS),
    part("order", "best-only", "best-only", count.differs, DIFFERS, wants=to.more_partitions),
    part("order", "reorder", "reorder", count.differs, DIFFERS, wants=to.more_partitions),
    part("order", "priority-inc", "priority-inc", count.differs, DIFFERS, wants=to.more_partitions),
    part("order", "wait-aware", "wait-aware", count.differs, DIFFERS, wants=to.more_partitions),
    part("order", "order in Python", to.LongestFirst, count.differs, DIFFERS),
]  # fmt: skip

RUNTIMES = [
    part("runtime", "last-two", "last-two", count.at(lambda now: now.planned), PLANNED),
    part("runtime", "recent-quantile", "recent-quantile", count.at(lambda now: now.planned), PLANNED),
    part("runtime", "nearest", {"neighbours": 2, "correction": "steps"}, count.at(lambda now: now.planned), PLANNED),
    part("runtime", "true-runtime", "true-runtime", count.at(lambda now: now.planned), PLANNED),
]  # fmt: skip

ESTIMATORS = [
    part("estimator", "history-mean", "history-mean", count.predicted_otherwise,
         "jobs that are predicted below the maximum"),
    part("estimator", "app-mean", "app-mean", count.predicted_otherwise, "jobs that are predicted below the maximum"),
    part("estimator", "oracle-mean", "oracle-mean", count.predicted_otherwise,
         "jobs that are predicted below the maximum"),
    part("estimator", "unit-watts", None, count.counts_units,
         "jobs that are predicted the watts of their very units", on=to.factors),
    part("estimator", "corrected", None, count.counts_units,
         "jobs that are predicted the watts of their very units", on=to.corrected),
]  # fmt: skip


def signal(name: str, on: Change, acted: Counter, counts: str, **more: Any) -> Feature:
    return Feature(name, "signals", on, acted, counts, **more)


SIGNALS = [
    signal("cap that moves", to.moving_cap, count.changes(count.limit_moved),
        "instants at which the limit changes while jobs run", claims={"cap": "moves"}),
    signal("load targets", to.add_targets, count.at(
        lambda now: bool(now.scalars.in_target and len(now.running))),
        "instants within a target while jobs run"),
    signal("ramp after a target", to.ramps, count.instants(count.in_a_ramp),
           "instants after a target at which the limit still rises, and a job waits"),
    signal("consent", to.add_consent, count.differs, "jobs that run otherwise than if all consented",
           wants=to.asks_for_consent, off=to.all_consent),
]  # fmt: skip

TELEMETRY = [
    Feature("telemetry right", "telemetry", to.sensor(PowerSensor(5.0, 5.0)), count.senses,
            "instants with samples that a ledger or a limit uses", {"sensor": "right"}, to.reads_sensors),
    Feature("telemetry noisy, with losses", "telemetry", to.sensor(PowerSensor(5.0, 5.0, noise=0.1, loss=0.6)),
            count.lacks, "instants with samples that a ledger or a limit uses", {"sensor": "missing"},
            to.reads_sensors),
    Feature("telemetry stale", "telemetry", to.sensor(PowerSensor(6.0, 6.0, loss=0.93)), count.lacks,
            "instants at which the sample of a busy sensor is stale", {"sensor": "stale"}, to.reads_sensors),
]  # fmt: skip

MACHINES = [
    Feature("partitions", "machine", to.more_partitions, count.instants(count.queued_in_both),
            "instants at which jobs run in one partition and wait with entries in another"),
    Feature("units are sockets", "machine", to.units_are("socket"), count.instants(count.share_a_node),
            "instants with two jobs on one node", {"unit": "socket"}),
    Feature("units are cores", "machine", to.units_are("core"), count.instants(count.share_a_device),
            "instants with two jobs in one device", {"unit": "core"}),
    Feature("cap scope dynamic", "machine", to.scope("dynamic"), count.instants(count.waits_for_watts),
            "instants at which the head of the queue waits for watts alone", {"scope": "dynamic"}),
    Feature("cap scope jobs", "machine", to.scope("jobs"), count.instants(count.waits_for_watts),
            "instants at which the head of the queue waits for watts alone", {"scope": "jobs"}),
    Feature("nodes fail", "machine", to.failures, count.changes(count.node_failed_under_a_job),
            "failures of a node with a job"),
    Feature("physics by application", "machine", to.physics, count.differs, DIFFERS, off=to.no_physics),
    Feature("power profiles in the run", "machine", to.profiles, count.changes(count.watts_walked),
            "running jobs whose true watts change at one speed"),
]  # fmt: skip

PASSES = [
    Feature("pass interval", "pass", to.backfill_option(pass_interval_s=7.0), count.at(
        lambda now: bool(now.scalars.last_pass_s < now.now_s and len(now.queue))),
        "instants at which jobs wait for the next pass", {"pass": "interval"}),
    Feature("queue depth", "pass", to.backfill_option(queue_depth=2), count.differs, DIFFERS, {"pass": "depth"},
            off=to.backfill_option(queue_depth=1000)),
]  # fmt: skip

FEATURES = {
    feature.name: feature
    for feature in (
        *LEDGERS, *CONTROLS, *FREQUENCIES, *PLACEMENTS, *BACKFILLS, *ORDERS, *RUNTIMES, *ESTIMATORS, *SIGNALS,
        *TELEMETRY, *MACHINES, *PASSES,
    )
}  # fmt: skip

NEVER = {
    frozenset(pair): reason
    for pair, reason in (
        (("control park-consenting", "control requeues, work kept"),
         "jobs that write checkpoints are requeued for a target, not suspended"),
        (("control lower-measured", "backfill announced-caps"),
         "a pass that looks ahead to a lower cap starts nothing that is above it then"),
        (("frequency capped-windows", "backfill announced-caps"),
         "the pass holds those jobs back that would run at other frequencies, as long as a cap is in force"),
        (("backfill none", "queue depth"), "a pass that ends at the first entry that does not fit looks at few anyway"),
        (("backfill pass in Python", "queue depth"), "a pass in Python tries the entries that it likes"),
    )
}  # fmt: skip
"""Pairs that cannot act in one world, each with the reason."""
