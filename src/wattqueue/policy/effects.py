"""Parts that cannot act: what each needs, and whether a run has it. The one place where this is looked at.

A part states what it needs to have an effect (``acts_on``), by the names in ``NEEDS``. A run without it is no error of
the part: a baseline may have no load target, a row may be tried on a machine with one clock. But nobody should read a
difference of two rows where a part did nothing, so that each is named with the reason: printed, and stored in run.toml.
What cannot be carried out at all is refused instead (``capabilities.require_carried_out``), as is a part whose need
``NEEDS`` calls an error. docs/no-effect.md has the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import SITE_PRIORITY
from wattqueue.policy.capabilities import parts_of
from wattqueue.policy.consent_windows import Window
from wattqueue.policy.interfaces import stated
from wattqueue.policy.registry import Policy, part_name
from wattqueue.policy.rows import LEFT_OUT


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known of a run before it begins; None for what a driver does not know then."""

    policy: Policy
    machine: Machine
    jobs: KnownJobs | None = None
    signals: Signals | None = None
    window: Window | None = None
    as_recorded: bool = True
    """Whether jobs draw and take what the trace says."""


class Need(NamedTuple):
    """What a part may need to act."""

    lacks: Callable[[Situation], bool]
    """Whether a situation is known to be without it."""
    reason: str
    """Why the part does nothing then, in words that follow its name."""
    remedy: str
    """What gives it an effect, or ends the note."""
    error: bool = False
    """Whether a run without it is refused."""


def _no_clocks(now: Situation) -> bool:
    return all(part.frequency_count < 2 for part in now.machine.partitions)


def _no_gain(now: Situation) -> bool:
    gain = (part.idle_w * part.units_per_node > part.off_w for part in now.machine.partitions)
    return now.machine.cap_scope != "machine" or not any(gain)


def _no_limit(now: Situation) -> bool:
    return now.signals is not None and not now.signals.cap.limited and not len(now.signals.targets)


def _no_targets(now: Situation) -> bool:
    return now.signals is not None and not len(now.signals.targets)


def _no_ramps(now: Situation) -> bool:
    return now.signals is not None and not np.isfinite(now.signals.targets.ramp_w_per_s).any()


def _nothing_announced(now: Situation) -> bool:
    if now.signals is None or now.jobs is None or len(now.signals.targets):
        return False
    return len(now.signals.cap.time_s) == 1 and "capped_windows" not in now.jobs.extra


def _no_wish(now: Situation) -> bool:
    return now.jobs is not None and not (np.asarray(now.jobs.extra.get("capped_windows", 1.0), np.float64) == 0).any()


def _no_consent(now: Situation) -> bool:
    return now.jobs is not None and (now.jobs.consent is None or not now.jobs.consent.given.any())


def _one_option(now: Situation) -> bool:
    return now.window is not None and bool((now.window.first == now.window.last).all())


def _highest_alone(now: Situation) -> bool:
    if now.window is None:
        return False
    first, last = (np.asarray(side, np.int64) for side in (now.window.first, now.window.last))
    highest = now.machine.option_start[:-1][now.machine.option_partition[first]]
    return bool(((first == last) & (first == highest)).all())


def _no_priorities(now: Situation) -> bool:
    return now.jobs is not None and SITE_PRIORITY not in now.jobs.extra


NEEDS: Mapping[str, Need] = {
    "clocks": Need(
        _no_clocks,
        "no partition has two frequencies or GPU limits",
        "state frequencies_hz or gpu_caps_w in the machine file",
    ),
    "windows": Need(
        _highest_alone,
        "every window has the highest frequency alone",
        "state lowest_hz, or the columns frequency_min_hz and frequency_max_hz",
    ),
    "switch-off": Need(
        _no_gain,
        "no node draws less for the cap when it is off",
        'state idle_w and off_w in the machine file, with cap_scope = "machine"',
    ),
    "limit": Need(_no_limit, "there is neither a cap nor a load target", "name one: --cap, --targets"),
    "targets": Need(_no_targets, "there is no load target", "name a file: --targets"),
    "ramps": Need(_no_ramps, "no load target states a ramp", "state ramp_w_per_s in the file of targets"),
    "announcements": Need(
        _nothing_announced, "no limit is announced for later", "name a file: --cap cap.csv, --targets"
    ),
    "capped-windows": Need(
        _no_wish, "no job wants to stay out of capped windows", "state the column capped_windows, 0 for such a job"
    ),
    "consent": Need(_no_consent, "no job consents", "name a file: --consent, or state the columns of consent"),
    "prices": Need(
        lambda now: all(stated(control, "prices", None) is None for control in now.policy.controls),
        "no price is known",
        'name a file: prices = "prices.csv"',
        error=True,
    ),
    "budgets": Need(
        lambda now: all(not stated(control, "budgets", ()) for control in now.policy.controls),
        "no budget is known",
        'name a file: budgets = "budgets.toml"',
        error=True,
    ),
    "lower-options": Need(
        _one_option, "every window has one option, which leaves nothing to slow", 'add "consent" to frequency'
    ),
    "partitions": Need(lambda now: len(now.machine.partitions) < 2, "the machine has one partition", "leave it out"),
    "devices": Need(
        lambda now: now.machine.devices < 2, "the machine has one device: no watts can be moved", "leave it out"
    ),
    "site-priorities": Need(
        _no_priorities, f"the job table has no column {SITE_PRIORITY}", "import it, or leave it out"
    ),
    "errors": Need(
        lambda now: now.as_recorded and bool(stated(now.policy.estimator, "exact", False)),
        "the estimator predicts what will be measured, which leaves nothing to correct",
        "use another estimator",
    ),
}
"""What parts may name in ``acts_on``."""


def without_effect(now: Situation) -> list[str]:
    """Return a sentence for each part of a policy that cannot act, with the reason and the remedy.

    What the machine could not give to a row that follows from it comes first.

    Raises: PolicyError for a need that is an error, and for a part that names one that does not exist.
    """
    found = [f"{now.policy.name} leaves out {what}" for what in now.policy.row.get(LEFT_OUT, ())]
    for axis, part in parts_of(now.policy):
        lacking = [need for need in map(_need, stated(part, "acts_on", ())) if need.lacks(now)]
        if not lacking:
            continue
        by = stated(part, "acts_by", "")
        named = f"{f'{by} of ' if by else ''}{axis} {part_name(type(part))}"
        said = f"{named} has no effect: {' and '.join(need.reason for need in lacking)}"
        if any(need.error for need in lacking):
            raise PolicyError(said, where=now.policy.name, hint=lacking[0].remedy)
        found.append(f"{said} ({'; '.join(need.remedy for need in lacking)})")
    return found


def _need(name: Any) -> Need:
    """Return a need by its name. Raises: PolicyError."""
    if name not in NEEDS:
        raise PolicyError(f"acts_on names {name!r}", hint=f"one of {', '.join(NEEDS)}")
    return NEEDS[name]
