"""Delay the start of jobs whose users consent to an hour at which energy is cheaper, or cleaner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.signals import Series
from wattqueue.parts.actions import Action, DelayStart

if TYPE_CHECKING:
    from wattqueue.parts.contracts import Floats
    from wattqueue.policy.view import View


class DelayConsenting:
    """Decide once for each job, when it is first seen waiting, at which time it would be cheapest to start.

    The price of a start is the mean of the series over the job's planned time at the first option of its window: power
    is taken to be constant. Compared are a start now and all later ones up to the latest at which the job can still end
    by its ``latest_end_s`` if it takes its whole walltime. The cheapest is taken, the earliest of equal ones, if it is
    cheaper than now by ``saving``. Until then the job stands back (``DelayStart``): others start before it, and it
    keeps its place in the queue. Jobs without consent or without a ``latest_end_s`` are not delayed (rule 20 of
    docs/semantics.md).

    Whether a job then starts at once is up to the pass: the queue may be long, and the cap low, at a cheap hour. A job
    is never delayed beyond its ``latest_end_s`` less its walltime.

    Args:
        prices: A CSV of times and prices, or of carbon intensities (``formats.series``): seconds of the trace's clock,
            or dates where that is Unix time, as in live operation.
        saving: Least share of today's mean price by which a later start must be cheaper.

    Raises: PolicyError for a saving that is negative.
    Reference: WattQueue's own; paper 5 (section 6) leaves demand response by prices to later work.
    """

    reads: ClassVar[tuple[str, ...]] = ("prices",)
    acts_on: ClassVar[tuple[str, ...]] = ("prices", "consent")
    delays: bool = True
    period_s: float = 0.0
    events: frozenset[str] = frozenset({"arrival"})

    def __init__(self, *, prices: Series | None = None, saving: float = 0.05) -> None:
        if not saving >= 0.0:
            raise PolicyError(f"saving is {saving}", where="delay-consenting", hint="a share, 0 or more")
        self.prices, self.saving = prices, saving
        self.begin()

    def begin(self) -> None:
        """Forget the jobs of a run before."""
        self._decided: dict[str, float] = {}
        """Jobs that wait, and until when each was delayed."""

    def act(self, view: View) -> Sequence[Action]:
        """Return delays of jobs that are seen for the first time."""
        consent, series = view.jobs.consent, self.prices
        if consent is None or series is None:
            return []
        waiting: dict[str, int] = {}
        for entry in view.queue.tolist():
            waiting.setdefault(view.job_id(view.entry_job(entry)), entry)
        kept = {name: until for name, until in self._decided.items() if name in waiting or until > view.now_s}
        found: list[Action] = []
        for name, entry in waiting.items():
            row = view.entry_job(entry)
            if name in kept:
                continue
            kept[name] = view.now_s
            if consent.given[row] and not np.isnan(consent.latest_end_s[row]):
                kept[name] = self._best_s(view, series, entry)
            if kept[name] > view.now_s:
                found.append(DelayStart(name, kept[name]))
        self._decided = kept
        return found

    def _best_s(self, view: View, series: Series, entry: int) -> float:
        """Return when a job had best start, now where no later time is cheaper by the saving."""
        latest_s = view.latest_start_s(view.entry_job(entry))
        if latest_s <= view.now_s:
            return view.now_s
        length_s = view.planned_s(view.entry_job(entry), view.entry_options(entry)[0])
        # The mean is linear between times at which the job begins or ends at a change of the price.
        edges = np.concatenate((series.time_s, series.time_s - length_s, [latest_s]))
        times = np.unique(edges[(edges > view.now_s) & (edges <= latest_s)])
        times = np.append(view.now_s, times)
        mean = means_over(series, times, length_s)
        best = int(np.argmin(mean))
        return float(times[best]) if mean[best] < mean[0] - self.saving * abs(mean[0]) else view.now_s


def means_over(series: Series, begin_s: Floats, length_s: float) -> Floats:
    """Return the mean of a series over so many seconds from each time on. Shapes (k,)."""
    return np.array([series.integral(float(at), float(at) + length_s) / length_s for at in begin_s])
