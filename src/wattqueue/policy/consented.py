"""Consent as every driver enforces it: actions and kept work (rule 20 of docs/semantics.md).

What is done for a load target to a job needs the consent of its user. Three places hold that, whatever the parts of a
policy do:

* ``consented_windows``: the window of a job that does not consent is the one that the frequency part gives where no
  target is known (``consent_windows``);
* the compiled pass takes options by ``reach_of`` (``kernels/consent.py``);
* ``refused_by_consent``: an action for a target, on a job that does not consent to it, is refused by the session.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.parts.actions import Action, Requeue, SetDeviceLimits, SetFrequency, StartJob, Suspend
from wattqueue.parts.contracts import Floats, Ints
from wattqueue.policy.actions import NO_CONSENT
from wattqueue.policy.consent_windows import SLACK, latest_end_s, most_stretch

if TYPE_CHECKING:
    from wattqueue.policy.state_view import StateView

KEEPS_NOTHING = "the job states no checkpoints, so none of its work is kept"
"""Why a requeue that claims kept work is refused."""


def refused_by_consent(view: StateView, action: Action, effect: LimitsEffect | None, freed_w: float = 0.0) -> str:
    """Return why an action needs the consent of a user that is not given; empty where it may be carried out.

    An action that slows, suspends or requeues a job is for a load target where one is known, or the limit still rises
    after one, and the cap alone is kept without it: whatever a control had in mind. ``effect``: of limits, what
    ``effect_beside_target`` returned. ``freed_w``: watts that actions of this instant freed and the view does not show
    yet; -inf where measured power is above the cap alone, and the policy acts by it.
    """
    if isinstance(action, Requeue) and action.checkpointed_s > 0 and np.isnan(checkpoint_of(view, action.job)):
        return KEEPS_NOTHING
    if isinstance(action, SetDeviceLimits):
        return "" if effect is None or _limits_agreed(view, effect) else NO_CONSENT
    if not isinstance(action, SLOWING) or not keeps_cap_alone(view, freed_w):
        return ""
    row = view.job_row(action.job)
    if row < 0:
        return ""  # the driver says what is wrong with it
    if isinstance(action, StartJob):
        return "" if _start_agreed(view, action, row) else NO_CONSENT
    rows = np.array([row], np.int32)
    if view.job_option(row) < 0:
        return ""
    if isinstance(action, SetFrequency):
        if not 0 <= action.option < len(view.machine.option_partition):
            return ""
        options = np.array([action.option])
        before, after = (view.time_factors_of(rows, each) for each in (view.job_options(rows), options))
        agreed = bool(after[0] <= before[0] * (1 + SLACK)) or bool(may_slow(view, rows, after)[0])
    else:
        requeued = isinstance(action, Requeue)
        agreed = bool(may_park(view, rows)[0]) and (not requeued or not np.isnan(checkpoint_of(view, action.job)))
    return "" if agreed else NO_CONSENT


def refused_by_power(view: StateView, action: Action) -> str:
    """Return why a control that acts by measured power may not stop a job: it did not opt in; empty where it may.

    The cap alone asks for no consent, but a meter may be wrong (rule 16).
    """
    if not isinstance(action, Suspend | Requeue):
        return ""
    row = view.job_row(action.job)
    if row < 0 or view.job_option(row) < 0:
        return ""  # the driver says what is wrong with it
    keeps = not isinstance(action, Requeue) or not np.isnan(checkpoint_of(view, action.job))
    return "" if keeps and may_park(view, np.array([row], np.int32))[0] else NOT_OPTED_IN


NOT_OPTED_IN = "by measured power, of a job whose user did not opt in"
"""Why such a control may not suspend or requeue a job."""
SLOWING = (SetFrequency, Suspend, Requeue, StartJob)
"""Actions that may take speed from a job, beside limits."""


def keeps_cap_alone(view: StateView, freed_w: float = 0.0) -> bool:
    """Return whether a load target is known, or the limit rises after one, and the cap alone is kept."""
    now = view.kernel.now
    full = int(max(now.cap_uw, now.full_cap_uw))
    if now.cap_uw >= full and not len(view.load_targets):
        return False
    if full >= codes.NO_CAP:
        return True
    budget = full - int(now.base_uw)
    if now.by_chance:
        budget = math.floor(budget / view.kernel.now.chance_share)
    left = budget - int(now.margin_uw) - int(now.ledger_uw) - int(now.idle_above_uw)
    return left + freed_w * codes.MICRO >= 0


def may_slow(view: StateView, rows: Ints, factors: Floats) -> NDArray[np.bool_]:
    """Return which running jobs may go on at these relative run times for a load target. Shapes (k,).

    Their users consent, and ``greatest_slowdown`` and ``latest_end_s`` are kept by what is expected of them.
    """
    full = view.time_factors_of(rows, full_speed(view, rows))
    left_s = (view.expected_end_s[rows] - view.now_s) / view.kernel.held.factor[rows]
    within = factors <= full * most_stretch(view.jobs, rows) * (1 + SLACK)
    within &= view.now_s + left_s * factors <= latest_end_s(view.jobs)[rows]
    return np.asarray(_given(view, rows) & within, np.bool_)


def may_park(view: StateView, rows: Ints) -> NDArray[np.bool_]:
    """Return which running jobs may wait for the end of the load target, by the consent of their users. Shape (k,).

    With the pause, and the work that a requeue has to do again, both ``latest_end_s`` and ``greatest_slowdown`` are
    kept, by the time limits of the jobs.
    """
    consent = view.jobs.consent
    if consent is None:
        return np.zeros(len(rows), np.bool_)
    pause_s = max(0.0, _target_end_s(view) - view.now_s)
    end_s = view.expected_end_s[rows] + checkpoints(view, rows)[1] + pause_s
    most = consent.greatest_slowdown[rows] * view.jobs.walltime_s[rows]
    most = most * view.time_factors_of(rows, full_speed(view, rows))
    within = np.isnan(most) | (end_s - view.jobs.observed.start_s[rows] <= most * (1 + 1e-12))
    return np.asarray(_given(view, rows) & within & (end_s <= latest_end_s(view.jobs)[rows]), np.bool_)


def checkpoints(view: StateView, rows: Ints) -> tuple[Floats, Floats]:
    """Return the work that each job has kept since its last start, and the seconds that it would do again. Shapes (k,).

    Work is in seconds at reference speed, NaN for jobs without checkpoints, which do nothing again.
    """
    if view.jobs.consent is None:
        return np.full(len(rows), np.nan), np.zeros(len(rows))
    factor = view.kernel.held.factor[rows]
    left_s = np.maximum(0.0, view.expected_end_s[rows] - view.now_s) / factor
    done = np.maximum(0.0, view.kernel.planned.seconds[rows] - left_s)
    every = view.jobs.consent.checkpoint_s[rows]
    # a rounding below a multiple is that multiple
    kept: Floats = np.floor(done / every + 1e-9) * every
    return kept, np.where(np.isnan(kept), 0.0, np.maximum(0.0, done - kept) * factor)


def checkpoint_of(view: StateView, job: str) -> float:
    """Return the seconds of work between two checkpoints of a job; NaN for none."""
    consent, row = view.jobs.consent, view.job_row(job)
    return np.nan if consent is None or row < 0 else float(consent.checkpoint_s[row])


def full_speed(view: StateView, rows: Ints) -> NDArray[np.integer]:
    """Return the highest frequency of the partition where each job runs, as an option. Shape (k,)."""
    found: NDArray[np.integer] = view.machine.option_start[view.machine.option_partition[view.job_options(rows)]]
    return found


def frees_w(view: StateView, action: Action) -> float:
    """Return the watts that an action on a running job frees in the ledger, once it is observed."""
    if not isinstance(action, SetFrequency | Suspend | Requeue):
        return 0.0
    rows = np.array([view.job_row(action.job)], np.int32)
    if rows[0] < 0:
        return 0.0
    counted = float(np.nan_to_num(view.counted_net_w(rows)[0]))
    return max(0.0, counted - view.net_watts(int(rows[0]), action.option)) if type(action) is SetFrequency else counted


def _given(view: StateView, rows: Ints) -> NDArray[np.bool_]:
    """Return which jobs consent. Shape (k,)."""
    return np.zeros(len(rows), np.bool_) if view.jobs.consent is None else view.jobs.consent.given[rows]


def _target_end_s(view: StateView) -> float:
    """Return the end of the target in force, else of the next that is known; the present where there is none."""
    targets = view.load_targets
    return float(targets.end_s.min()) if len(targets) else view.now_s


def _start_agreed(view: StateView, action: StartJob, row: int) -> bool:
    """Return whether a start by a control takes the first option that fits the cap alone, or one that is agreed to."""
    table, p = view.kernel.entries, action.partition
    if not 0 <= p < table.of_job.shape[1] or table.of_job[row, p] < 0:
        return True
    entry = int(table.of_job[row, p])
    alone_w = view.available_w + (view.cap_alone_w - view.cap_w if np.isfinite(view.cap_w) else 0.0)
    first, agreed = int(table.first[entry]), int(view.kernel.consent.last[entry])
    fitting = (option for option in range(first, action.option) if view.net_watts(row, option) <= alone_w)
    return action.option <= agreed or next(fitting, None) is None


class LimitsEffect(NamedTuple):
    """What is expected of running jobs under the limits in force, and under those of an action."""

    rows: Ints
    """Jobs that are not suspended. Shape (k,)."""
    before: Floats
    after: Floats
    """Relative run times. Shapes (k,)."""
    drawn_w: float
    left_w: float
    """Watts above idle of all of them."""


def limits_effect(view: StateView, action: SetDeviceLimits, caps_w: Floats) -> LimitsEffect | None:
    """Return what limits do; None for an action that the driver refuses, and for one that lowers none: it slows nobody.

    ``caps_w`` (D,) are the limits in force.
    """
    devices, new = np.asarray(action.devices), np.asarray(action.caps_w, np.float64)
    if devices.dtype.kind not in "iu" or devices.shape != new.shape or not len(devices):
        return None
    if devices.min() < 0 or devices.max() >= view.machine.devices:
        return None
    after_w = caps_w.copy()
    after_w[devices] = new
    if not (after_w < caps_w).any():
        return None
    rows = view.active
    (before, drawn_w), (after, left_w) = limited_speeds(view, rows, caps_w, after_w)
    return LimitsEffect(rows, before, after, drawn_w, left_w)


def effect_beside_target(view: StateView, action: Action, caps_w: Floats, freed_w: float = 0.0) -> LimitsEffect | None:
    """Return what limits do where a load target may be why they are set; None elsewhere, and for other actions.

    ``caps_w`` and ``freed_w`` as in ``limits_effect`` and ``refused_by_consent``.
    """
    if not isinstance(action, SetDeviceLimits) or not keeps_cap_alone(view, freed_w):
        return None
    return limits_effect(view, action, caps_w)


def moves_watts(view: StateView, effect: LimitsEffect) -> bool:
    """Return whether limits only move watts between jobs: no target limits yet, and the sum that is expected stays.

    Then they are not for the target: before it begins, they may move watts as they do under a cap.
    """
    limited = view.target_w < np.inf or view.cap_w < view.cap_alone_w
    return not limited and effect.left_w >= effect.drawn_w - SAME_W


def _limits_agreed(view: StateView, effect: LimitsEffect) -> bool:
    """Return whether limits slow no job beyond what its user consents to, by the watts that are expected of them."""
    slower = effect.after > effect.before * (1 + SLACK)
    agreed = may_slow(view, effect.rows[slower], effect.after[slower])
    return bool(agreed.all()) or moves_watts(view, effect)


def are_for_target(view: StateView, effect: LimitsEffect | None) -> bool:
    """Return whether what limits lower is lowered for a load target: the cap alone asks for none of it.

    ``effect`` is what ``effect_beside_target`` returned.
    """
    return effect is not None and (view.cap_alone_w == np.inf or not moves_watts(view, effect))


def limited_speeds(view: StateView, rows: Ints, *each_caps_w: Floats) -> list[tuple[Floats, float]]:
    """Return for each column of limits the expected relative run times of running jobs, and their watts above idle.

    The watts are those of all of them. By predicted watts, as rule 14 of docs/semantics.md has it. Shapes (D,), (k,).
    """
    from wattqueue.policy.state_view import units_of

    machine = view.machine
    idle = machine.by_unit([part.idle_w for part in machine.partitions])
    alpha = machine.by_unit([part.dvfs_alpha for part in machine.partitions])
    counted = view.counted_unit_w
    for row in view.suspended:
        counted[view.job_units(int(row))] = np.nan
    watts, first = np.where(np.isnan(counted), idle, counted), machine.device_start[:-1]
    above = np.maximum(watts - idle, 0.0)
    floor, dynamic = (np.add.reduceat(each, first) for each in (np.minimum(watts, idle), above))
    units, begin = units_of(view, rows)
    options = view.job_options(rows)
    factor = view.time_factors_of(rows, options)
    beta = np.array([part.dvfs_beta for part in machine.partitions])[machine.option_partition[options]]
    full_w = np.add.reduceat(above[units], begin) if len(rows) else np.zeros(0)
    found = []
    for caps_w in each_caps_w:
        over = (dynamic > 0) & (floor + dynamic > caps_w)
        share = np.where(over, np.maximum(np.where(over, caps_w, 0.0) - floor, 0.0) / np.where(over, dynamic, 1.0), 1.0)
        speed = np.where(over, np.maximum(LEAST_SPEED, share ** (1.0 / alpha[first])), 1.0)
        on = speed[machine.device_of_unit[units]]
        slowest = np.minimum.reduceat(on, begin) if len(rows) else np.zeros(0)
        drawn_w = float((full_w * slowest ** alpha[units[begin]]).sum())
        found.append((factor * (beta * (1.0 / slowest - 1.0) + 1.0), drawn_w))
    return found


LEAST_SPEED = 0.1
"""Lowest speed of a device (rule 14)."""
SAME_W = 1e-3
"""Watts by which two sums of watts may differ: rounding."""
