"""What a policy may do: the actions that controls and passes return, and how a driver carries them out.

The classes are defined with the contracts of the parts (``parts/actions.py``), where it is stated once what an action
means. Each driver has a table (``DriverAbilities.actions``) that names for every kind of action the function that
carries it out, or the reason why it is refused: a new kind of action is a class, and one entry in each table.

``ActionLimits`` bounds what controls do, so that every simulated run ends: a control that requeues a job at every call,
or that stops and wakes nodes while jobs wait, would keep a run alive for ever. The limits are far above what useful
controls do. A live controller has no end to protect, and no such limits.

``StartJob`` is carried out here (``start_job``), the same for every driver, because every driver has a kernel view.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.kernels import calls as act
from wattqueue.kernels import state
from wattqueue.model.consent import Consent
from wattqueue.parts.actions import Action, DelayStart, Requeue, SetDeviceLimits, StartJob
from wattqueue.policy.build import time_factors
from wattqueue.policy.identity import JobNames

KINDS: tuple[type, ...] = get_args(Action)
"""Every kind of action."""
WRONG_STATE = "wrong state"
NO_FREE_UNIT = "no free unit"
NO_OPTION = "no such option"
NO_POWER = "not enough power below the cap"
NO_CONSENT = "for a load target, without the consent of the job's user"
NO_DELAYS = "no control of this policy states that it delays jobs"
NO_DELAY_CONSENT = "a delay to which the job's user does not consent, or after which it could not end in time"
REASONS = ("", WRONG_STATE, NO_FREE_UNIT, NO_OPTION, NO_POWER, NO_CONSENT)
"""What a refusal code of the kernels means, as parts and users read it; empty for an action that was carried out."""


def listed(answer: Any, kinds: tuple[type, ...], part: object, method: str) -> Sequence[Any]:
    """Return what a part returned, if it is a list of values of ``kinds``.

    A part that forgets its ``return`` would otherwise fail far from its own code.

    Raises: PolicyError naming the part.
    """
    # Named classes first: a list of ours is told without a look at abstract classes, at each call of a control.
    if type(answer) is list or (isinstance(answer, Sequence) and not isinstance(answer, str)):
        for value in answer:
            if type(value) not in kinds and not isinstance(value, kinds):
                break
        else:
            found: Sequence[Any] = answer
            return found
    expected = ", ".join(kind.__name__ for kind in kinds)
    raise PolicyError(
        f"{method} returned {answer!r}", where=type(part).__name__, hint=f"return a list of {expected}; [] for none"
    )


def carry_out(table: Mapping[type, Callable[[Any, Any], str] | str], driver: Any, action: Action, part: object) -> str:
    """Have ``driver`` carry out an action; return an empty text, or why it was refused.

    Raises: PolicyError naming the part, for a job that is no name, and a unit or option that is not a whole number.
    """
    carrier = table[type(action)]
    if isinstance(carrier, str):
        return carrier
    try:
        return carrier(driver, action)
    except (TypeError, OverflowError) as error:
        raise PolicyError(
            f"{action!r}: {error}",
            where=type(part).__name__,
            hint="jobs are named as view.job_id(row) says; units, partitions and options are whole numbers",
        ) from error


MOST_REQUEUES = 1_000
"""How often one control may requeue one job."""
MOST_ACTIONS_A_UNIT = 10
"""Actions at one instant, or while nothing runs: so many for each unit, and ``SPARE_ACTIONS``."""
SPARE_ACTIONS = 1_000


class ActionLimits:
    """Counts the actions that were carried out.

    A refused action is not counted: it changes nothing, and calls without effect are bounded by the loop itself
    (``control_steps_left``).
    """

    def __init__(self, units: int) -> None:
        """Start counting, for a machine of so many units."""
        self.most = MOST_ACTIONS_A_UNIT * units + SPARE_ACTIONS
        self.requeues: Counter[tuple[int, str]] = Counter()
        self.now_s = -np.inf
        self.at_once = 0
        """Actions at this instant. Nodes that boot in no time can wake the control that woke them, at one instant."""
        self.moved = False
        """Whether an action of this call may move the queue."""
        self.in_vain = 0
        """Actions since anything ran: nodes that are stopped and woken while jobs wait change nothing."""

    def at(self, now_s: float, *, moves: bool) -> None:
        """Begin an instant. ``moves`` says whether a job runs or is still to come."""
        self.moved = False
        if now_s > self.now_s:
            self.now_s, self.at_once = now_s, 0
        if moves:
            self.in_vain = 0

    def count(self, control: object, action: Action) -> None:
        """Count an action of a control that was carried out.

        Raises: PolicyError naming the control where a limit is passed.
        """
        self.at_once += 1
        if not isinstance(action, SetDeviceLimits):  # limits move no queue, and calls that set them alone are bounded
            self.moved = True
            self.in_vain += 1
        if self.at_once > self.most or self.in_vain > self.most:
            when = f"at {self.now_s} s" if self.at_once > self.most else "while no job runs"
            raise PolicyError(
                f"more than {self.most:,} actions {when}: the run would never end",
                where=type(control).__name__,
                hint="return only actions that change something, and [] otherwise",
            )
        if isinstance(action, Requeue):
            key = (id(control), action.job)
            self.requeues[key] += 1
            if self.requeues[key] > MOST_REQUEUES:
                raise PolicyError(
                    f"job {action.job} was requeued more than {MOST_REQUEUES:,} times",
                    where=type(control).__name__,
                    hint="a requeued job starts from zero, and this one would never end",
                )


def start_job(kernel: state.KernelView, names: JobNames, action: StartJob) -> str:
    """Start an entry, as a custom pass would; return an empty text, or why not.

    Units that the action names must be those that the job gets by the policy's placement; other ones are refused
    rather than ignored.
    """
    entries = kernel.entries.of_job
    job, p = names.row(action.job), operator.index(action.partition)
    if not (0 <= job < len(entries) and 0 <= p < entries.shape[1]):
        return WRONG_STATE
    if action.nodes and sorted(action.nodes) != next_units(kernel, p, job):
        return NO_OPTION
    return REASONS[act.start_checked(kernel, int(entries[job, p]), operator.index(action.option))]


def delay_start(kernel: state.KernelView, consent: Consent | None, names: JobNames, action: DelayStart) -> str:
    """Delay the start of a waiting job, as far as its user consents (rule 20); return an empty text, or why not.

    By its walltime at the first option of its entries, so that it can still end in time when it starts then.
    """
    row, until = names.row(action.job), float(action.until_s)
    if not len(kernel.planned.not_before):
        return NO_DELAYS
    if row < 0:
        return WRONG_STATE
    if not action.by_site and not until <= latest_start_s(kernel, consent, row):
        return NO_DELAY_CONSENT
    return REASONS[act.delay_start(kernel, row, until)]


def latest_start_s(kernel: state.KernelView, consent: Consent | None, row: int) -> float:
    """Return until when a job's user consents that its start is delayed; -inf for not at all."""
    entry = kernel.entries.of_job[row]
    entry = entry[entry >= 0]
    if consent is None or not consent.given[row] or np.isnan(consent.latest_end_s[row]) or not len(entry):
        return -np.inf
    first = kernel.entries.first[entry]
    slowest = time_factors(kernel.predicted, np.full(len(first), row), first).max()
    return float(consent.latest_end_s[row] - kernel.walltime[row] * slowest)


def next_units(kernel: state.KernelView, p: int, job: int) -> list[int]:
    """Return the numbers of the units that a start of ``job`` in partition p would take, rising; fewer if too few."""
    if not len(kernel.by_unit.order):
        return lowest_free(kernel, p, int(kernel.nodes[job]))
    found = np.empty(int(kernel.units.unit_start[-1]), np.int32)
    return sorted(found[: act.units_of_start(kernel, p, job, found)].tolist())


def lowest_free(kernel: state.KernelView, p: int, count: int) -> list[int]:
    """Return the numbers of the lowest free units of partition p, ``count`` of them or fewer."""
    units = kernel.units
    words = units.word[units.word_start[p] : units.word_start[p + 1]]
    free = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))[:count]
    return [int(units.unit_start[p]) + int(bit) for bit in free]


def unit_is_free(kernel: state.KernelView, unit: int) -> bool:
    """Return whether a unit is powered, up and without a job."""
    units = kernel.units
    p = int(np.searchsorted(units.unit_start, unit, side="right")) - 1
    i = unit - int(units.unit_start[p])
    return bool((int(units.word[units.word_start[p] + i // 64]) >> (i % 64)) & 1)
