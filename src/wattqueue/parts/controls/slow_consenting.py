"""Slow running jobs whose users consent while a load target is exceeded, and speed them up again after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.parts.actions import Action, SetFrequency
from wattqueue.parts.controls._least_cover import least_cover

if TYPE_CHECKING:
    from wattqueue.policy.view import View

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]


class SlowConsenting:
    """At each signal, bring the ledger below the limit with the least added turnaround for each watt.

    A job may be slowed to the last option of its window to which its user consents (rule 20 of docs/semantics.md).
    While a target is in force and the ledger is above the limit, jobs at full speed are slowed, those with the least
    added seconds for each watt first.

    Bound (``least_cover``): the added turnaround exceeds the least that frees as much by less than what one of the
    slowed jobs adds, and is at most twice that.

    When no target is in force, slowed jobs are sped up again in the opposite order, as far as the limit has watts: a
    ramp after a target lets them return step by step. A slowed job whose user has withdrawn the consent is sped up
    during a target, too, before any other and as soon as the limit has its watts.

    Reference: WattQueue's own; paper 5 (section 4.1) leaves the choice of the jobs to later work.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("targets", "consent", "lower-options")
    period_s: float = 0.0
    events: frozenset[str] = frozenset({"signal", "consent"})

    def act(self, view: View) -> Sequence[Action]:
        """Return changes of frequency."""
        if view.target_w < np.inf:
            return (
                self._slow(view, -view.available_w) if view.available_w < 0 else self._speed_up(view, *_withdrawn(view))
            )
        rows, full, slow = (np.concatenate(pair) for pair in zip(_withdrawn(view), _slowed(view), strict=True))
        return self._speed_up(view, rows, full, slow)

    def _slow(self, view: View, excess_w: float) -> list[Action]:
        """Return the slow-downs that free so many watts, or all that there are."""
        rows, full, slow = _changeable(view)
        now = view.job_options(rows) == full
        rows, full, slow = rows[now], full[now], slow[now]
        freed, added = _gain(view, rows, full, slow)
        good = (freed > 0) & view.may_slow(rows, slow)
        rows, slow, freed, added = rows[good], slow[good], freed[good], added[good]
        chosen = least_cover(added, freed, excess_w)
        return [SetFrequency(view.job_id(int(rows[k])), int(slow[k])) for k in chosen]

    def _speed_up(self, view: View, rows: Rows, full: Rows, slow: Rows) -> list[Action]:
        """Return which slowed jobs may go to full speed: withdrawn ones, then those that lose most by waiting."""
        if not len(rows):
            return []
        # what a slowed job counts for may be measured: more than predicted, and then less is needed
        _, gained = _gain(view, rows, full, slow)
        needed = view.net_watts_of(rows, full) - view.counted_net_w(rows)
        first, last = view.consented_windows(rows)
        order = np.lexsort((-gained / np.maximum(needed, 1e-6), first != last))
        chosen = order[np.cumsum(needed[order]) <= view.available_w]
        return [SetFrequency(view.job_id(int(rows[k])), int(full[k])) for k in chosen]


def _changeable(view: View) -> tuple[Rows, Rows, Rows]:
    """Return the running jobs that consent, the first option of their window and the last consented. Shapes (k,)."""
    rows = view.running
    first, last = view.consented_windows(rows)
    several = first != last
    return rows[several], first[several], last[several]


def _slowed(view: View) -> tuple[Rows, Rows, Rows]:
    """Return the consenting jobs that were slowed, their first and their last consented option. Shapes (k,)."""
    rows, full, slow = _changeable(view)
    now = view.job_options(rows) == slow
    return rows[now], full[now], slow[now]


def _withdrawn(view: View) -> tuple[Rows, Rows, Rows]:
    """Return the jobs without consent below the first option of their window, that option, and their own. Shapes (k,).

    They were slowed while they consented, or started so under a cap that had no room for more.
    """
    rows = view.running
    first, last = view.consented_windows(rows)
    option = view.job_options(rows)
    gone = (first == last) & (option > first)
    return rows[gone], first[gone], option[gone].astype(np.int32)


def _gain(view: View, rows: Rows, full: Rows, slow: Rows) -> tuple[Floats, Floats]:
    """Return the watts between two options of running jobs, and the seconds that the slower one adds to what is left.

    Shapes (k,).
    """
    watts = view.net_watts_of(rows, full) - view.net_watts_of(rows, slow)
    left = view.expected_end_s[rows] - view.now_s
    now = view.time_factors_of(rows, view.job_options(rows))
    return watts, left / now * (view.time_factors_of(rows, slow) - view.time_factors_of(rows, full))
