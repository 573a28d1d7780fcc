"""Find in the outputs of a run what was done to jobs for load targets without the consent of their users.

An independent check of rule 20 of docs/semantics.md: it reads schedule, power and targets, and asks no kernel. It
reports only what the outputs prove, and so may miss a violation, but never reports one that is none:

* a start at a lower option than the cap alone asked for, while a target limits;
* power below what running jobs draw that may not be slowed, while a target limits: one of them was slowed, limited or
  suspended;
* a suspension of a job without consent, where a target alone limits the run;
* a longer run of a job without consent under device limits, where a target alone limits the run and limits
  only follow what limits it (controls with ``holds_budget``), at its start or later;
* kept work of a job without checkpoints, or other work than whole checkpoints.

Instants at which the outputs do not tell what ran (jobs that were requeued later), or at which the cap alone might not
have been kept, prove nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import PowerSeries, Schedule
from wattqueue.model.signals import Cap, RiseScale, Signals
from wattqueue.policy.build import time_factors, unit_uw
from wattqueue.policy.interfaces import stated
from wattqueue.sim.engine import Simulation

SLACK_W = 1e-3
"""Watts within which figures are the same: rounding of microwatts over many jobs."""


class ConsentViolation(NamedTuple):
    """What was done to a job that its user did not consent to."""

    job: str
    time_s: float
    what: str


@dataclass(frozen=True, slots=True, eq=False)
class RunOutputs:
    """What a run leaves behind, and what its policy was told. Shapes by n jobs and O options."""

    jobs: Jobs
    machine: Machine
    cap: Cap
    """The cap without load targets."""
    targets: LoadTargets
    """In watts."""
    schedule: Schedule
    power: PowerSeries
    first: NDArray[np.int64]
    """First option of the window of each job on each partition, -1 for none. Shape (n, P)."""
    net_w: Floats
    """What the ledger counts for a start, by prediction. Shape (n, O)."""
    stretch: Floats
    """Predicted run time relative to that at the partition's highest frequency. Shape (n, O)."""
    true_w: Floats
    """What each job draws at each option. Shape (n, O); empty where the outputs do not tell."""
    predicted: bool = True
    """Whether the ledger is the sum of predictions: else what the cap alone asked for cannot be computed."""
    checkpointed_s: Floats = field(default_factory=lambda: np.zeros(0))
    """Work that requeues kept; empty for none, or not known."""
    limits_follow: bool = False
    """Whether all that controls do is to hold the limit in force by device limits: where there is no limit,
    they slow nobody."""


def outputs_of(
    simulation: Simulation, schedule: Schedule, power: PowerSeries, checkpointed_s: Floats | None = None
) -> RunOutputs:
    """Return the outputs of a run; ``simulation`` has its inputs, and may have run or not."""
    view, truth, jobs, machine = simulation.view, simulation.truth, simulation.jobs, simulation.machine
    n, options = len(jobs), len(machine.option_partition)
    row, option = (each.ravel() for each in np.indices((n, options)))
    nodes = jobs.nodes.astype(np.float64)[:, np.newaxis]
    unit_w = np.broadcast_to(unit_uw(view.predicted, row, option), (n * options,)).reshape(n, options) / codes.MICRO
    idle_w = np.array([part.idle_w for part in machine.partitions])[machine.option_partition]
    share = 0.0 if machine.cap_scope == "jobs" else idle_w
    factor = np.broadcast_to(time_factors(view.predicted, row, option), (n * options,)).reshape(n, options)
    full = factor[:, machine.option_start[machine.option_partition]]
    entry = view.entries.of_job
    needs = simulation.session.needs
    plain = (
        needs.measured is None
        and needs.chance is None
        and needs.margin_w is None
        and not len(view.by_unit.factors.table)
    )
    true_w = np.zeros((0, options))
    limiting = [control for control in needs.controls if stated(control, "sets_limits", False)]
    limits = bool(limiting) or truth.loop.keeps_owners != 0
    if jobs.profiles is None and not limits and not len(truth.by_unit.table):
        true_w = np.broadcast_to(unit_uw(truth.actual, row, option), (n * options,)).reshape(n, options) * nodes / 1e6
    signals: Signals = simulation.world.signals
    return RunOutputs(
        jobs, machine, signals.cap, signals.targets, schedule, power,
        np.append(view.entries.first, -1)[entry].astype(np.int64),  # entry -1 takes what was appended
        np.maximum(unit_w - share, 0.0) * nodes, factor / full, true_w, plain,
        np.zeros(0) if checkpointed_s is None else checkpointed_s,
        bool(limiting) and all(stated(control, "holds_budget", False) for control in needs.controls),
    )  # fmt: skip


def consent_violations(run: RunOutputs) -> list[ConsentViolation]:
    """Return what the outputs of a run prove, in order of time."""
    found = _kept(run)
    if len(run.targets):
        consent = run.jobs.consent or Consent.build(len(run.jobs))
        found += _starts(run, consent) + _slowed(run, consent) + _suspended(run, consent) + _limited(run, consent)
    return sorted(found, key=lambda one: (one.time_s, one.job))


def _kept(run: RunOutputs) -> list[ConsentViolation]:
    """Return jobs that kept work which they could not keep."""
    if not len(run.checkpointed_s):
        return []
    consent = run.jobs.consent or Consent.build(len(run.jobs))
    every = consent.checkpoint_s
    with np.errstate(invalid="ignore"):
        part = np.abs(run.checkpointed_s - np.round(run.checkpointed_s / every) * every) > 1e-6 * np.maximum(
            run.checkpointed_s, 1.0
        )
    wrong = (run.checkpointed_s > 0) & (np.isnan(every) | part)
    return [
        _of(run, row, run.schedule.start_s[row], "keeps work without a checkpoint") for row in np.flatnonzero(wrong)
    ]


def _starts(run: RunOutputs, consent: Consent) -> list[ConsentViolation]:
    """Return starts at a lower option than the cap alone asked for, and than the user consents to."""
    found, schedule = [], run.schedule
    for row in np.flatnonzero(schedule.ran & _limits_at(run, schedule.start_s)):
        option, p = int(schedule.option[row]), int(run.machine.option_partition[schedule.option[row]])
        first, time_s = int(run.first[row, p]), float(schedule.start_s[row])
        if first < 0 or option <= first:
            continue
        latest = consent.latest_end_s[row]
        most = 1.0 if not consent.given[row] else np.nan_to_num(consent.greatest_slowdown[row], nan=np.inf)
        if consent.given[row] and (run.stretch[row, option] <= most * (1 + 1e-9) or not np.isnan(latest)):
            continue
        most_w = _most_counted_w(run, time_s, without=int(row))
        if most_w + run.net_w[row, first:option].min() <= _cap_w(run, time_s):
            found.append(_of(run, row, time_s, "starts slower than the cap alone asks for"))
    return found


def _slowed(run: RunOutputs, consent: Consent) -> list[ConsentViolation]:
    """Return the jobs that draw less than at their start, by the sum of all, at an instant at which a target limits.

    Where power was below that sum before the target was known, nothing is proved.
    """
    if not len(run.true_w):
        return []
    schedule, power, found = run.schedule, run.power, []
    least = run.true_w.min(axis=1)
    part = run.machine.option_partition[schedule.option]
    idle = np.array([p.idle_w for p in run.machine.partitions])[part] * run.jobs.nodes
    named: set[int] = set()
    least = np.where(consent.given, np.minimum(least, idle), run.true_w[np.arange(len(run.jobs)), schedule.option])
    for row in range(len(run.targets)):
        known = run.targets.announced_s[row], run.targets.end_s[row]
        steps = np.flatnonzero((power.time_s >= known[0]) & (power.time_s < known[1]))
        before = np.searchsorted(power.time_s, known[0]) - 1
        if before >= 0 and _missing_w(run, least, int(before)) != 0.0:
            continue
        for k in steps.tolist():
            time_s = float(power.time_s[k])
            missing = _missing_w(run, least, k)
            if np.isnan(missing) or _most_counted_w(run, time_s) > _cap_w(run, time_s):
                break
            if missing > 0 and run.targets.start_s[row] <= time_s:
                runs = schedule.ran & (schedule.start_s <= time_s) & (schedule.end_s > time_s) & ~consent.given
                named |= {int(each) for each in np.flatnonzero(runs & _longer(run))}
                found += [_of(run, each, time_s, "is slowed for a load target") for each in sorted(named)]
                break
    return list(dict.fromkeys(found))


def _missing_w(run: RunOutputs, least: Floats, k: int) -> float:
    """Return by how much power in a row is below what jobs draw at least; NaN where nobody knows what runs."""
    schedule, time_s = run.schedule, run.power.time_s[k]
    runs = schedule.ran & (schedule.start_s <= time_s) & (schedule.end_s > time_s)
    if int(run.jobs.nodes[runs].sum()) != int(run.power.busy_units[k]):
        return np.nan
    missing = float(least[runs].sum() - run.power.jobs_w[k])
    return missing if missing > SLACK_W else 0.0


def _longer(run: RunOutputs) -> NDArray[np.bool_]:
    """Return which jobs took longer than at the option of their start, by the machine's exponents. Shape (n,)."""
    schedule, jobs = run.schedule, run.jobs
    work = np.minimum(jobs.runtime_s, jobs.walltime_s) - (run.checkpointed_s if len(run.checkpointed_s) else 0.0)
    expected = work * run.machine.option_time_factor[schedule.option]
    return np.asarray(schedule.end_s - schedule.start_s > expected * (1 + 1e-9) + 1e-3, np.bool_)


def _suspended(run: RunOutputs, consent: Consent) -> list[ConsentViolation]:
    """Return jobs without consent that were suspended in a run without a cap of the site."""
    parked = run.schedule.parked_s
    if parked is None or run.cap.limited:
        return []
    # between two targets, while none is known, a control may suspend whom it likes
    inside = np.zeros(len(run.jobs), np.bool_)
    for begin, end in zip(run.targets.announced_s, run.targets.end_s, strict=True):
        inside |= (run.schedule.start_s >= begin) & (run.schedule.end_s <= end)
    rows = np.flatnonzero((parked > 0) & ~consent.given & inside)
    return [_of(run, row, run.schedule.start_s[row], "is suspended for a load target") for row in rows]


def _limited(run: RunOutputs, consent: Consent) -> list[ConsentViolation]:
    """Return jobs without consent that took longer than at the option of their start, under limits for targets alone.

    Of jobs that ran while a target was known, or began after one: a limit may outlive it.
    """
    if run.cap.limited or not run.limits_follow or run.jobs.profiles is not None:
        return []
    schedule, parked = run.schedule, run.schedule.parked_s
    still = schedule.ran & ~consent.given & (schedule.end_s > float(run.targets.announced_s.min()))
    still &= _longer(run) & ((parked == 0) if parked is not None else True)
    return [_of(run, row, run.schedule.start_s[row], "is limited for a load target") for row in np.flatnonzero(still)]


def _limits_at(run: RunOutputs, time_s: Floats) -> NDArray[np.bool_]:
    """Return whether a target limits below the cap alone at each time; False where it is NaN. Shape as given."""
    limit = Signals(run.cap, run.targets, RiseScale.of(run.machine)).limit()
    at = np.where(np.isnan(time_s), 0.0, time_s)
    return np.asarray(~np.isnan(time_s) & (limit.at(at) < run.cap.at(at)), np.bool_)


def _most_counted_w(run: RunOutputs, time_s: float, without: int = -1) -> float:
    """Return the most that the ledger may have counted at an instant, base included; inf where it is not known."""
    schedule = run.schedule
    if np.isinf(_cap_w(run, time_s)):
        return 0.0  # without a cap there is always room
    k = int(np.searchsorted(run.power.time_s, time_s, side="right")) - 1
    runs = schedule.ran & (schedule.start_s <= time_s) & (schedule.end_s > time_s)
    if not run.predicted or k < 0 or int(run.jobs.nodes[runs].sum()) != int(run.power.busy_units[k]):
        return np.inf
    if without >= 0:
        runs[without] = False
    base = 0.0
    if run.machine.cap_scope == "machine":
        # the outputs do not say which node idles, boots or shuts down: each may be in its costliest state
        base = sum(
            part.nodes * max(part.idle_w * part.units / part.nodes, part.boot_w, part.shutdown_w)
            for part in run.machine.partitions
        )
    return float(run.net_w[runs].max(axis=1).sum()) + base


def _cap_w(run: RunOutputs, time_s: float) -> float:
    """Return the cap alone at an instant."""
    return run.cap.in_force_w(time_s)


def _of(run: RunOutputs, row: int | np.integer, time_s: float, what: str) -> ConsentViolation:
    return ConsentViolation(str(run.jobs.job_id[row]), float(time_s), what)
