"""Keep who holds which units from round to round, so that a round costs what changed and not what runs.

``PlacedJobs`` places running jobs on units (``world.Occupation``) only where another job runs, or one counts otherwise;
expected ends that pass are the one thing that follows the clock. ``BusyColumns`` are the columns of these jobs in a
policy's snapshot, made afresh only for other jobs.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.live.parking import PARKED
from wattqueue.live.world import NO_LIMIT_S, OVERDUE_S, Busy, KnownPlacement, Layout, Occupation
from wattqueue.model.jobs import Floats, Ints
from wattqueue.policy.decide import RunningJobs

if TYPE_CHECKING:
    from wattqueue.live.running_jobs import RunningJob


@dataclass
class PlacedJobs:
    """The running jobs of the last round on their units."""

    layout: Layout
    _seen: dict[int, KnownPlacement] = field(default_factory=dict)
    """Placements by the identity of rows: parsing lists of nodes is the costly part."""
    _jobs: Sequence[RunningJob] = ()
    _placed: Occupation = field(init=False)
    """With ends by the jobs' limits."""
    _due_s: Floats = field(default_factory=lambda: np.zeros(0))
    """Those ends; -inf for a job that is completing."""
    _parked: tuple[int, ...] = ()
    """Places of jobs that the controller stopped."""

    def __post_init__(self) -> None:
        """Begin without any job."""
        self._placed = Occupation(self.layout)

    def occupation(self, running: Sequence[RunningJob], now_s: float) -> Occupation:
        """Return who holds which units now; the caller may add jobs to it.

        A plan needs an end in the future: what should have ended is expected to end soon, and what is stopped never.
        """
        if len(running) != len(self._jobs) or not all(map(operator.is_, running, self._jobs)):
            self._place(running)
        placed = self._placed
        busy = list(placed.busy)
        for k in np.flatnonzero(self._due_s <= now_s).tolist():
            busy[k] = busy[k]._replace(end_s=now_s + OVERDUE_S)
        for k in self._parked:
            busy[k] = busy[k]._replace(end_s=np.inf, parked=True)
        return Occupation(self.layout, busy, set(placed.taken), self._seen, set(placed.withheld))

    def _place(self, running: Sequence[RunningJob]) -> None:
        """Place these jobs."""
        # placements are kept by the identity of rows; those of rows that are gone are dropped together
        if len(self._seen) > 2 * len(running) + 1000:
            self._seen.clear()
        placed, parked = Occupation(self.layout, seen=self._seen), []
        for job in running:
            before = len(placed.busy)
            placed.running(job.row, job.option, job.counted.net_w, variance_left=job.counted.variance_left)
            if job.counted.label == PARKED and len(placed.busy) > before:
                parked.append(before)
        due = [-np.inf if b.row.state == "completing" else b.end_s for b in placed.busy]
        self._jobs, self._placed, self._due_s, self._parked = running, placed, np.array(due), tuple(parked)


class BusyColumns(NamedTuple):
    """Busy jobs (b,) as columns."""

    busy: Sequence[Busy]
    names: NDArray[np.object_]
    submit_s: Floats
    nodes: Ints
    """Units that they hold."""
    walltime_s: Floats
    start_s: Floats
    """NaN for what is under way."""
    option: NDArray[np.int16]
    end_s: Floats
    net_uw: NDArray[np.int64]
    first: NDArray[np.int64]
    """First interval of each job, (b,); intervals are in ``low`` and ``high``."""
    pieces: Ints
    """Number of its intervals."""
    low: Ints
    high: Ints
    parked: NDArray[np.bool_]
    variance_left: Floats
    """Empty where all of it is left."""

    def as_running(self, first_row: int) -> RunningJobs:
        """Return the jobs as a policy's snapshot holds them.

        Job k is row ``first_row + k`` of the job table: waiting jobs come first there.
        """
        rows = np.arange(first_row, first_row + len(self.busy), dtype=np.int32)
        return RunningJobs(
            rows, self.option, self.end_s, self.net_uw, self.first, self.pieces, self.low, self.high, self.parked,
            self.variance_left,
        )  # fmt: skip


def busy_columns(busy: Sequence[Busy], last: BusyColumns | None) -> BusyColumns:
    """Return the columns of busy jobs; ``last`` are those of the round before."""
    if last is not None and len(last.busy) == len(busy):
        other = [k for k, same in enumerate(map(operator.is_, busy, last.busy)) if not same]
        if not other:
            return last
        if all(_alike(busy[k], last.busy[k]) for k in other):
            end_s = last.end_s.copy()
            end_s[other] = [busy[k].end_s for k in other]
            return last._replace(busy=busy, end_s=end_s)
    runs, left = [job.runs for job in busy], [job.variance_left for job in busy]
    count = np.fromiter(map(len, runs), np.int32, len(runs))
    ends = np.fromiter(chain.from_iterable(chain.from_iterable(runs)), np.int32).reshape(-1, 2)
    start = [b.row.start_s if b.row.active else np.nan for b in busy]
    return BusyColumns(
        busy,
        np.array([b.row.key.name for b in busy], object),
        np.fromiter((b.row.key.submit_s for b in busy), np.float64, len(busy)),
        np.fromiter((len(b.units) for b in busy), np.int32, len(busy)),
        np.fromiter((min(b.row.walltime_s, NO_LIMIT_S) for b in busy), np.float64, len(busy)),
        np.array(start, np.float64),
        np.array([b.option for b in busy], np.int16),
        np.array([b.end_s for b in busy], np.float64),
        np.array([b.net_w for b in busy], np.int64) * 1_000_000,
        np.cumsum(count, dtype=np.int64) - count,
        count,
        np.ascontiguousarray(ends[:, 0]),
        np.ascontiguousarray(ends[:, 1]),
        np.fromiter((b.parked for b in busy), np.bool_, len(busy)),
        np.array(left) if min(left, default=1.0) < 1.0 else np.zeros(0),
    )


def _alike(one: Busy, other: Busy) -> bool:
    """Whether two are the same but for their expected end."""
    return one.row is other.row and one._replace(end_s=other.end_s) == other
