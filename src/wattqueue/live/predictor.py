"""What jobs will draw and take: each job asked once, when it is first seen; measured jobs teach.

An online estimator starts afresh with each batch of new jobs: it is given what is remembered of
finished jobs in order of their ends, then asked. So its state is what the memory holds, and a
restart changes nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.live.slurm.snapshot import JobKey
from wattqueue.live.world import NO_LIMIT_S, Layout
from wattqueue.model.jobs import Floats, Ints, Jobs, Labels
from wattqueue.parts.contracts import Estimator, Finished, OnlineEstimator, Prediction


class Asked(NamedTuple):
    """A job as an estimator sees it: what its user asked for."""

    key: JobKey
    user: str
    app: str
    partition: str
    nodes: int
    walltime_s: float


class Ran(NamedTuple):
    """A job that runs or ran: what was predicted for one of its nodes, and on what at which frequency (NaN: any)."""

    asked: Asked
    predicted_node_w: float
    hardware: str = ""
    frequency_hz: float = math.nan


class Learned(NamedTuple):
    """A job that ended and was measured; watts are of one node. ``hardware`` and frequency where it ran, if known."""

    asked: Asked
    start_s: float
    end_s: float
    mean_node_w: float
    max_node_w: float
    predicted_node_w: float
    hardware: str = ""
    frequency_hz: float = math.nan


def job_table(asked: Sequence[Asked], learned: Sequence[Learned] = ()) -> Jobs:
    """Waiting jobs, behind those that were measured. What has not ended has its limit as run time."""
    rows = [*(one.asked for one in learned), *asked]
    wall = np.array([min(r.walltime_s, NO_LIMIT_S) for r in rows], np.float64)
    ran = [max(one.end_s - one.start_s, 1.0) for one in learned]
    return Jobs.build(
        np.array([r.key.submit_s for r in rows], np.float64),
        np.array([r.nodes for r in rows], np.int32),
        np.concatenate((np.array(ran, np.float64), wall[len(ran) :])),
        walltime_s=wall,
        job_id=np.array([r.key.name for r in rows], object),
        user=Labels.of([r.user for r in rows]),
        app=Labels.of([r.app for r in rows]),
        partition=Labels.of([r.partition for r in rows]),
    )


@dataclass
class Predictor:
    """Predictions by job, kept in one table that grows; ``most`` finished jobs are remembered.

    ``whole`` rounds watts up so that they are whole licences.
    """

    estimator: Estimator
    layout: Layout
    most: int = 20_000
    learned: deque[Learned] = field(default_factory=deque)
    _row: dict[JobKey, int] = field(default_factory=dict)
    _power: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    _time: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    _used: int = 0
    _keep_most: int = 10_000

    def __post_init__(self) -> None:
        options = len(self.layout.machine.option_partition)
        self._power, self._time = np.zeros((64, options)), np.ones((64, options))
        figures = [self.layout.machine.partitions[p] for p in self.layout.machine.option_partition]
        top = np.array([p.max_w if p.max_w is not None else np.inf for p in figures])
        idle = np.array([p.idle_w for p in figures])
        scaled = np.where(np.isfinite(top), idle + (top - idle) * self.layout.machine.option_dynamic_factor, top)
        self.most_w = self.layout.whole_w(scaled[np.newaxis])
        """Watts by option where nothing is believed: the machine's own maxima. Shape (1, O)."""

    def learn(self, jobs: Iterable[Learned]) -> None:
        """Jobs that ended; they teach from the next question on."""
        self.learned.extend(jobs)
        while len(self.learned) > self.most:
            self.learned.popleft()

    def ask(self, jobs: Sequence[Asked], now_s: float, known: Container[JobKey] = ()) -> None:
        """Predict the jobs that were not asked about yet; ``known`` are all jobs that are still there."""
        new = [job for job in jobs if job.key not in self._row]
        if not new:
            return
        power, time = self._fresh(new, now_s)
        if self._used > self._keep_most:
            self._drop({key for key in self._row if key in known} - {job.key for job in new})
            self._keep_most = 2 * self._used + 10_000
        self._grow(len(new))
        rows = slice(self._used, self._used + len(new))
        self._power[rows], self._time[rows] = self.layout.whole_w(power), time
        for job in new:
            self._row[job.key] = self._used
            self._used += 1

    def _fresh(self, new: Sequence[Asked], now_s: float) -> tuple[Floats, Floats]:
        machine = self.layout.machine
        if isinstance(self.estimator, OnlineEstimator):
            known = sorted(self.learned, key=lambda one: one.end_s)
            table = job_table(new, known)
            first = self.estimator.predict(table, machine)
            self.estimator.learn(
                Finished(
                    np.arange(len(known), dtype=np.int32),
                    np.array([one.end_s for one in known], np.float64),
                    np.array([one.mean_node_w for one in known], np.float64),
                    np.array([one.max_node_w for one in known], np.float64),
                )
            )
            rows = np.arange(len(known), len(table), dtype=np.int32)
            power = self.estimator.predict_rows(rows, now_s)
            return power, _rows(first, first.time_factor, rows)
        table = job_table(new)
        given = self.estimator.predict(table, machine)
        rows = np.arange(len(table), dtype=np.int32)
        return _rows(given, given.power_w, rows), _rows(given, given.time_factor, rows)

    def prediction(self, keys: Sequence[JobKey], *, believed: bool = True) -> Prediction:
        """Predictions of these jobs; not ``believed``: the machine's maxima for all (times stay)."""
        row = np.fromiter((self._row[key] for key in keys), np.int32, len(keys))
        used = max(self._used, 1)
        power = self._power[:used]
        if not believed:
            power = np.where(np.isinf(power), power, self.most_w)
        return Prediction(power, self._time[:used], row)

    def of(self, key: JobKey) -> tuple[Floats, Floats] | None:
        """Watts of one unit and time factors by option; None for a job never asked about."""
        row = self._row.get(key)
        return None if row is None else (self._power[row], self._time[row])

    def _grow(self, more: int) -> None:
        if self._used + more > len(self._power):
            room = max(2 * len(self._power), self._used + more)
            for name in ("_power", "_time"):
                old: Floats = getattr(self, name)
                new = np.ones((room, old.shape[1]))
                new[: self._used] = old[: self._used]
                setattr(self, name, new)

    def _drop(self, keep: set[JobKey]) -> None:
        """Forget jobs that are gone."""
        kept = {key: row for key, row in self._row.items() if key in keep}
        rows = np.array(list(kept.values()), np.int64)
        self._power[: len(rows)], self._time[: len(rows)] = self._power[rows], self._time[rows]
        self._row = {key: i for i, key in enumerate(kept)}
        self._used = len(rows)


def _rows(prediction: Prediction, table: NDArray[np.float64], rows: Ints) -> Floats:
    """Rows of a (C, O) table for jobs, however the prediction shares them. Shape (k, O)."""
    if prediction.row is not None and len(prediction.row):
        return np.asarray(table[prediction.row[rows]] if len(table) > 1 else table[np.zeros_like(rows)])
    return np.asarray(table[rows] if len(table) > 1 else table[np.zeros_like(rows)])
