"""Keep what is predicted of each job, and the measured jobs that predictions are learned from.

The session asks the estimator and checks its answers (``policy.estimation``). Here is what only a live controller needs
around that: Slurm's jobs as the job table that estimators expect; the answers in one table that grows, so that a round
pays only for jobs that are new; and the measured jobs, which the session teaches again before each batch of new jobs.
What an estimator answers therefore depends on the database alone, and a controller that was restarted predicts the
same as one that was not.

Watts are those of one unit (a node), rounded up so that the net watts are whole licences: Slurm
counts licences in whole numbers, and what the policy admits Slurm must be able to admit too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from wattqueue.live.cluster import JobKey
from wattqueue.live.requests import JobRequest, MeasuredJob, request_table
from wattqueue.live.run_times import EndedRun, RunTimes
from wattqueue.live.table import LiveJobs, Slots
from wattqueue.live.world import Layout
from wattqueue.model.jobs import Floats, Labels
from wattqueue.parts.contracts import Finished, Prediction, Runs
from wattqueue.policy.session import Session


@dataclass
class EstimatorNotes:
    """What an estimator was taught and asked, in this order, and what it answered."""

    learned: list[MeasuredJob] = field(default_factory=list)
    asked: list[JobRequest] = field(default_factory=list)
    watts: list[list[float]] = field(default_factory=list)
    """Watts of one unit of each job that was asked about, by option."""
    ended: list[EndedRun] = field(default_factory=list)
    """Run times that the run-time part was taught."""
    planned_s: list[float] = field(default_factory=list)
    """Planned seconds of each job that was asked about, where the policy predicts run times."""


def finished_of(learned: Sequence[MeasuredJob], layout: Layout) -> Finished:
    """Return measured jobs, sorted by their ends, as the first rows of a job table; with units where all are known."""
    columns = [(one.end_s, one.mean_node_w, one.max_node_w) for one in learned]
    end, mean, most = np.array(columns, np.float64).reshape(-1, 3).T
    return Finished(np.arange(len(learned), dtype=np.int32), end, mean, most, runs_of(learned, layout))


def runs_of(learned: Sequence[MeasuredJob], layout: Layout) -> Runs:
    """Return nodes and options of measured jobs. Limits of nodes are not known at their ends."""
    machine = layout.machine
    names = (machine.partitions[p].name for p in machine.option_partition)
    hertz = np.nan_to_num(machine.option_frequency_hz, nan=-1.0).tolist()
    options = {key: option for option, key in enumerate(zip(names, hertz, strict=True))}
    units = [[layout.unit.get(name, -1) for name in one.node_names] for one in learned]
    known = [[] if -1 in found else sorted(found) for found in units]
    count = np.fromiter(map(len, known), np.int32, len(known))
    unit = np.fromiter(chain.from_iterable(known), np.int32)
    ran_at = np.nan_to_num([one.frequency_hz for one in learned], nan=-1.0).tolist()
    option = [options.get((one.hardware, hz), -1) for one, hz in zip(learned, ran_at, strict=True)]
    limit_w = np.full(len(learned), np.nan)
    return Runs(np.cumsum(count, dtype=np.int64) - count, count, unit, unit, np.array(option, np.int16), limit_w)


@dataclass
class Predictor:
    """Predictions by job, in two tables (watts, time factors) of shape (rows, options) that grow by doubling.

    Invariant: ``_row[key]`` is the row of a job, rows ``0 .. _used - 1`` are taken, and a row never
    changes once it is written: a job keeps the prediction of its submission (semantics, rule 11).
    Rows of jobs that are gone are dropped only when the table has doubled, so dropping costs O(1) on
    average.
    """

    session: Session
    """Asks the estimator."""
    layout: Layout
    most: int = 20_000
    """Finished jobs that are remembered: bounds the memory, and the time to train afresh."""
    learned: deque[MeasuredJob] = field(default_factory=deque)
    unit_factors: dict[str, Floats] = field(default_factory=dict)
    """Watts of an application on each unit relative to the prediction, (U,) by name; empty where units are alike."""
    unit_times: dict[str, Floats] = field(default_factory=dict)
    """Run times likewise, for placements that rank by them."""
    has_node_factors: bool = False
    """Whether the estimator has watts by unit at all."""
    app_of: dict[JobKey, str] = field(default_factory=dict)
    """Application of each predicted job that is in ``unit_factors``."""
    notes: EstimatorNotes | None = None
    """What the estimator heard and said since the notes were last taken; None where nobody takes them."""
    run_times: RunTimes | None = None
    """Planned times; None where the policy does not predict any."""
    _row: dict[JobKey, int] = field(default_factory=dict)
    _power: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    _time: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    _used: int = 0
    _keep_most: int = 10_000

    def __post_init__(self) -> None:
        """Allocate the tables."""
        options = len(self.layout.machine.option_partition)
        self._power, self._time = np.zeros((64, options)), np.ones((64, options))
        self.most_w = self.layout.most_w()
        if self.session.needs.plans is not None:
            self.run_times = RunTimes(self.session, self.layout.machine)

    def learn(self, jobs: Iterable[MeasuredJob]) -> None:
        """Remember jobs that ended. They influence predictions from the next new job on."""
        jobs = list(jobs)
        if self.notes is not None:
            self.notes.learned += jobs
        self.learned.extend(jobs)
        while len(self.learned) > self.most:
            self.learned.popleft()

    def learn_runs(self, runs: Sequence[EndedRun]) -> None:
        """Remember how long jobs ran that ended, where the policy predicts run times."""
        if self.run_times is None:
            return
        if self.notes is not None:
            self.notes.ended += runs
        self.run_times.learn(runs)

    def predict(self, jobs: Sequence[JobRequest], now_s: float, known: Container[JobKey] = ()) -> None:
        """Predict the jobs that have no prediction yet; one that cannot be used is the maximum of the job's nodes.

        ``known`` holds the keys of all jobs that still exist; rows of others may be dropped.
        """
        new = [job for job in jobs if job.key not in self._row]
        if not new:
            return
        learned = sorted(self.learned, key=lambda one: one.end_s) if self.session.learns else []
        rows = np.arange(len(learned), len(learned) + len(new), dtype=np.int32)
        asked = (
            request_table(new, learned),
            self.layout.machine,
            finished_of(learned, self.layout),
            rows,
            now_s,
            self.most_w[0],
        )
        found = self.session.predict_batch(*asked)
        planned_s = [] if self.run_times is None else self.run_times.predict(new, now_s, known)
        self._store_factors(asked[0].app, found, new)
        if self._used > self._keep_most:
            self._drop({key for key in self._row if key in known} - {job.key for job in new})
            self._keep_most = 2 * self._used + 10_000
        self._grow(len(new))
        kept = slice(self._used, self._used + len(new))
        # where nodes differ, whole watts are those of the job on its very nodes (live.placement)
        apart = np.array([job.key in self.app_of for job in new])[:, np.newaxis]
        self._power[kept] = np.where(apart, found.power_w, self.layout.whole_w(found.power_w))
        self._time[kept] = found.time_factor
        for job in new:
            self._row[job.key] = self._used
            self._used += 1
        if self.notes is not None:
            self.notes.asked += new
            self.notes.watts += self._power[kept].tolist()
            self.notes.planned_s += planned_s

    def pop_notes(self) -> EstimatorNotes:
        """Return the notes, and begin new ones."""
        notes, self.notes = self.notes or EstimatorNotes(), EstimatorNotes()
        return notes

    def prediction(self, keys: Sequence[JobKey], *, telemetry_ok: bool = True) -> Prediction:
        """Return the predictions of these jobs as one shared table with a row index.

        Without telemetry (``telemetry_ok`` false) every finite figure is replaced by the machine's
        maximum: an error of the estimator would go unnoticed. Options that an estimator never offers
        (infinite watts) stay excluded; time factors stay.
        """
        row = np.fromiter(map(self._row.__getitem__, keys), np.int32, len(keys))
        used = max(self._used, 1)
        power = self._power[:used]
        if not telemetry_ok:
            power = np.where(np.isinf(power), power, self.most_w)
        return Prediction(power, self._time[:used], row)

    def rows(self, keys: Iterable[JobKey], table: Prediction) -> NDArray[np.int32]:
        """Return the rows of jobs in a table that ``prediction`` returned; 0 for those that it lacks."""
        found = np.array([self._row.get(key, 0) for key in keys], np.int32)
        return np.where(found < len(table.power_w), found, 0).astype(np.int32)

    def of(self, key: JobKey) -> tuple[Floats, Floats] | None:
        """Return watts of one unit and time factors by option; None for a job that was never predicted."""
        row = self._row.get(key)
        return None if row is None else (self._power[row], self._time[row])

    def planned_s(self, keys: Sequence[JobKey], walltime_s: Floats) -> Floats | None:
        """Return the planned seconds of jobs that wait; None where the policy predicts no run times. Shape (n,)."""
        return None if self.run_times is None else self.run_times.waiting_s(keys, walltime_s)

    def expect_ends(self, jobs: LiveJobs, slots: Slots, now_s: float) -> Floats:
        """Put the ends that the policy predicts into the table; return the planned seconds behind these. Shape (b,).

        Ends stay as they are, and the result is empty, where it predicts none.
        """
        if self.run_times is None:
            return np.zeros(0)
        factors = self._factors(jobs, slots)
        self.run_times.saw(jobs, slots, factors, now_s)
        return self.run_times.expect(jobs, slots, factors, now_s)

    def _factors(self, jobs: LiveJobs, slots: Slots) -> Floats:
        """Return the run times of jobs at their options over those at reference speed, 1 for unknown ones. (b,)."""
        known = [self.of(row.key) for row in jobs.row[slots]]
        pairs = zip(known, jobs.option[slots], strict=True)
        return np.array([1.0 if one is None else one[1][option] for one, option in pairs])

    def _store_factors(self, app: Labels, found: Prediction, new: Sequence[JobRequest]) -> None:
        """Keep the factors of applications that have any; their tables (A, U) have a row for each name in ``app``."""
        for factor, kept in ((found.unit_factor, self.unit_factors), (found.unit_time_factor, self.unit_times)):
            if factor is not None:
                kept |= {app.names[k]: factor[k] for k in np.flatnonzero(~np.isnan(factor).any(axis=1))}
        if found.unit_factor is None:
            return
        self.has_node_factors = True
        self.app_of |= {job.key: job.app for job in new if job.app in self.unit_factors}

    def _grow(self, more: int) -> None:
        """Make room for so many more rows, at least doubling the tables."""
        if self._used + more > len(self._power):
            room = max(2 * len(self._power), self._used + more)
            for name in ("_power", "_time"):
                old: Floats = getattr(self, name)
                new = np.ones((room, old.shape[1]))
                new[: self._used] = old[: self._used]
                setattr(self, name, new)

    def _drop(self, keep: set[JobKey]) -> None:
        """Drop the rows of all jobs but these, and close the gaps."""
        kept = {key: row for key, row in self._row.items() if key in keep}
        rows = np.array(list(kept.values()), np.int64)
        self._power[: len(rows)], self._time[: len(rows)] = self._power[rows], self._time[rows]
        self._row = {key: i for i, key in enumerate(kept)}
        self._used = len(rows)
        self.app_of = {key: app for key, app in self.app_of.items() if key in keep}
