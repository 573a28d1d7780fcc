"""Counters of the interaction matrix: they show that a feature acted in a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.interactions.watch import Instant, Trace, net_uw, watched
from tests.interactions.worlds import Draft
from wattqueue.kernels import codes
from wattqueue.policy.build import unit_uw

Change = Callable[[Draft], None]
Counter = Callable[["Seen"], int]


@dataclass
class Seen:
    """What a counter looks at: the run, and the same world without the feature."""

    draft: Draft
    trace: Trace
    off: Change | None = None

    @cached_property
    def differences(self) -> int:
        """Jobs that start at another time, option or unit without the feature."""
        assert self.off is not None
        draft = self.draft.copy()
        self.off(draft)
        other = watched(draft.simulation()).run.schedule
        ours = self.trace.run.schedule
        same = (ours.option == other.option) & (ours.state == other.state)
        same &= (ours.start_s == other.start_s) | (np.isnan(ours.start_s) & np.isnan(other.start_s))
        if not same.all():
            return int((~same).sum())
        return int(
            not np.array_equal(ours.unit_low, other.unit_low)
            or not np.array_equal(ours.end_s, other.end_s, equal_nan=True)
        )


def instants(test: Callable[[Seen, Instant], bool]) -> Counter:
    """Count instants at which something holds."""
    return lambda seen: sum(test(seen, now) for now in seen.trace.instants)


def at(test: Callable[[Instant], bool]) -> Counter:
    """Count instants that are so."""
    return lambda seen: sum(test(now) for now in seen.trace.instants)


def changes(test: Callable[[Seen, Instant, Instant], bool]) -> Counter:
    """Count pairs of neighbouring instants between which something happened."""
    return lambda seen: sum(
        test(seen, *pair) for pair in zip(seen.trace.instants, seen.trace.instants[1:], strict=False)
    )


def differs(seen: Seen) -> int:
    """Jobs whose start, option or units differ without the feature."""
    return seen.differences


def head(seen: Seen, now: Instant) -> tuple[int, int]:
    """Return job and lowest net microwatts of the queue's head where it has units enough, else -1."""
    if not len(now.queue):
        return -1, 0
    view = seen.trace.simulation.view
    entry = int(now.queue[0])
    job, last = int(view.entries.job[entry]), np.array([int(view.entries.last[entry])])
    p = int(view.units.option_partition[last[0]])
    if view.nodes[job] > now.free[p]:
        return -1, 0
    return job, int(net_uw(seen.trace.simulation, np.array([job]), last)[0])


def waits_for_watts(seen: Seen, now: Instant) -> bool:
    """The head of the queue has units enough, and not the watts."""
    job, net = head(seen, now)
    return job >= 0 and net > now.scalars.available_uw


def held_by_margin(seen: Seen, now: Instant) -> bool:
    """The head of the queue would fit but for the ledger's margin."""
    job, net = head(seen, now)
    scalars = now.scalars
    return job >= 0 and net <= scalars.cap_uw - scalars.base_uw - scalars.ledger_uw


def job_of(seen: Seen, entries: Any) -> Any:
    return seen.trace.simulation.view.entries.job[entries]


def overtaken(seen: Seen, before: Instant, now: Instant) -> bool:
    """A job started while one that was queued before it goes on waiting."""
    started = set(now.running.tolist()) - set(before.running.tolist())
    if not started:
        return False
    entries = seen.trace.simulation.view.entries
    ranks = [int(entries.rank[entry]) for job in started for entry in entries.of_job[job].tolist() if entry >= 0]
    return len(now.queue) > 0 and max(ranks) > int(entries.rank[now.queue].min())


def backfilled(seen: Seen, before: Instant, now: Instant) -> bool:
    """A job overtook one that holds a reservation with a time; ranked anew, reservations are not kept in the view."""
    if seen.trace.simulation.session.needs.rerank is not None:
        return overtaken(seen, before, now)
    promised = (now.reserved >= 0) & (now.shadow_s < np.inf)
    return overtaken(seen, before, now) and bool(promised.any())


def lower_options(seen: Seen) -> int:
    """Jobs that ran at another option than their partition's first."""
    schedule, machine = seen.trace.run.schedule, seen.trace.run.machine
    ran = schedule.ran
    option = schedule.option[ran]
    return int((option > machine.option_start[machine.option_partition[option]]).sum())


def counted_otherwise(seen: Seen, now: Instant) -> bool:
    """A running job counts other watts than were predicted."""
    return bool((np.abs(now.net - now.predicted_net)[now.parked == 0] > 1000).any())


def changed_option(seen: Seen, before: Instant, now: Instant) -> bool:
    """A running job changed its option."""
    return any(a != b for a, b in both(before, now, "option"))


def both(before: Instant, now: Instant, column: str) -> list[tuple[Any, Any]]:
    """Values of a column for jobs that hold units at both instants."""
    then = dict(zip(before.running.tolist(), getattr(before, column).tolist(), strict=True))
    return [
        (then[job], value)
        for job, value in zip(now.running.tolist(), getattr(now, column).tolist(), strict=True)
        if job in then
    ]


def not_on(state: int) -> Callable[[Instant], bool]:
    return lambda now: bool((now.unit_state == state).any())


def node_failed_under_a_job(seen: Seen, before: Instant, now: Instant) -> bool:
    fell = (now.unit_state == codes.UNIT_DOWN) & (before.unit_state != codes.UNIT_DOWN)
    return bool((before.owner[fell] >= 0).any())


def jobs_share(size: Callable[[Any], Any]) -> Callable[[Seen, Instant], bool]:
    """Two jobs on one node, or in one device."""

    def test(seen: Seen, now: Instant) -> bool:
        group = size(seen.trace.run.machine)
        pairs = {(int(group[u]), int(job)) for u, job in enumerate(now.owner.tolist()) if job >= 0}
        return len(pairs) > len({g for g, _ in pairs})

    return test


def share_a_node(seen: Seen, now: Instant) -> bool:
    return jobs_share(lambda machine: machine.node_of_unit)(seen, now)


def share_a_device(seen: Seen, now: Instant) -> bool:
    return jobs_share(lambda machine: machine.device_of_unit)(seen, now)


def predicted_otherwise(seen: Seen) -> int:
    """Jobs that were predicted below the maximum of their units."""
    run = seen.trace.run
    ran = run.schedule.ran
    most = np.array([p.max_w or 0.0 for p in run.machine.partitions])[run.machine.option_partition]
    most = most * run.machine.option_dynamic_factor
    full = most[run.schedule.option[ran]] * run.jobs.nodes[ran]
    return int((run.schedule.predicted_w[ran] < full - 1e-6).sum())


def counts_units(seen: Seen) -> int:
    """Jobs that were predicted other watts than on units of factor 1."""
    run, view = seen.trace.run, seen.trace.simulation.view
    rows = np.flatnonzero(run.schedule.ran)
    equal = unit_uw(view.predicted, rows, run.schedule.option[rows]) * run.jobs.nodes[rows] / codes.MICRO
    return int((np.abs(run.schedule.predicted_w[rows] - equal) > 1e-3).sum())


def in_a_ramp(seen: Seen, now: Instant) -> bool:
    """The limit still rises after a target while a job waits."""
    if now.scalars.in_target or not len(now.queue):
        return False
    cap, targets = seen.draft.limits()
    after = bool((targets.end_s <= now.now_s).any())
    return after and now.scalars.cap_uw < codes.microwatts(cap.in_force_w(now.now_s))


def busy_samples(seen: Seen, now: Instant) -> NDArray[np.int64]:
    """Samples of the sensors whose units run a job."""
    machine = seen.trace.run.machine
    if not len(now.sample_uw):
        return np.zeros(0, np.int64)
    return now.sample_uw[np.unique(machine.sensor_of_unit[now.owner >= 0])]


def senses(seen: Seen) -> int:
    """Instants with samples of busy sensors, which a ledger counts or a limit follows."""
    return instants(
        lambda seen, now: bool(now.scalars.by_sample or now.limited) and bool((busy_samples(seen, now) >= 0).any())
    )(seen)


def lacks(seen: Seen) -> int:
    """Instants, after the first reading, at which a busy sensor has no sample."""
    return instants(lambda seen, now: now.now_s > 12.0 and bool((busy_samples(seen, now) < 0).any()))(seen)


def queued_in_both(seen: Seen, now: Instant) -> bool:
    """Jobs run in one partition, and entries wait in another."""
    view = seen.trace.simulation.view
    partition = view.units.option_partition
    waits = set(partition[view.entries.first[now.queue]].tolist())
    runs = set(partition[now.option].tolist())
    return len(waits) > 0 and len(runs) > 0 and len(waits | runs) > 1


def watts_walked(seen: Seen, before: Instant, now: Instant) -> bool:
    """True watts of a running job change at one option and one speed."""
    same = [a == b for a, b in both(before, now, "option")]
    same_speed = [a == b for a, b in both(before, now, "factor")]
    watts = both(before, now, "true_uw")
    return any(a != b for (a, b), c, d in zip(watts, same, same_speed, strict=True) if c and d)


def limit_moved(seen: Seen, before: Instant, now: Instant) -> bool:
    """The limit in force changed while jobs run."""
    return bool(before.scalars.cap_uw != now.scalars.cap_uw and len(now.running))
