"""Replay a trace in order of time: predict every job at its submission from only the jobs that had ended by then.

Main flow of ``wattqueue predict`` and of the prediction study: ``replay_estimator`` picks the fastest way that gives
the same answer. Static estimators are evaluated once; our own online parts compute a whole trace with compiled kernels
(``OnlineBase.replay``); any other online estimator is called instant by instant (``step``), as a simulation would.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Estimator, Finished, Ints, OnlineEstimator, Prediction, QuantileEstimator
from wattqueue.parts.online import OnlineBase, QuantileReplay
from wattqueue.parts.oracles import jobs_for
from wattqueue.parts.scale import partition_figures
from wattqueue.parts.timeline import Timeline


@dataclass(frozen=True, slots=True, eq=False)
class ReplayedPredictions:
    """Predictions of a whole trace: watts of one unit at the reference frequency."""

    power_w: Floats
    """Predicted watts; NaN where the estimator had nothing to go by. Shape (n,)."""
    quantiles: dict[float, Floats] = field(default_factory=dict)
    """Predicted quantiles by probability, where the estimator gives any. Shapes (n,)."""


def replay_estimator(estimator: Estimator, jobs: Jobs, machine: Machine, line: Timeline) -> ReplayedPredictions:
    """Return the predictions of a whole trace.

    Raises: PolicyError where the estimator breaks its contract.
    """
    if estimator.asked == "once":
        return _static(estimator.predict(jobs_for(estimator, jobs), machine), reference_options(jobs, machine))
    if isinstance(estimator, OnlineBase):
        return _replay_vectorised(estimator, jobs, machine, line)
    return step(estimator, jobs, machine, line)


def reference_options(jobs: Jobs, machine: Machine) -> Ints:
    """Return the highest-frequency option of each job's partition; of the first partition if its name is unknown.

    Shape (n,).
    """
    number = {p.name: i for i, p in enumerate(machine.partitions)}
    of_name = np.array([*(number.get(name, 0) for name in jobs.partition.names), 0], np.int32)
    found: Ints = machine.option_start[of_name[jobs.partition.codes]]
    return found


def _static(prediction: Prediction, option: Ints) -> ReplayedPredictions:
    """Return a static prediction at one option per job."""
    jobs = np.arange(len(option), dtype=np.int32)
    row = prediction.rows(jobs)
    return ReplayedPredictions(
        prediction.watts(jobs, option), {q: w[row, option] for q, w in prediction.quantiles.items()}
    )


def _replay_vectorised(estimator: OnlineBase, jobs: Jobs, machine: Machine, line: Timeline) -> ReplayedPredictions:
    """Return a vectorised replay; gaps (no history yet) become the partition's maximum, as they do in a run."""
    top = partition_figures(machine)[1][reference_options(jobs, machine)]

    def filled(watts: Floats) -> Floats:
        return np.where(np.isnan(watts), top, watts)

    if not isinstance(estimator, QuantileReplay):
        return ReplayedPredictions(filled(estimator.replay(jobs, line)))
    watts = estimator.replay_quantiles(jobs, line)
    quantiles = {q: filled(watts[:, i]) for i, q in enumerate(estimator.quantiles)}
    return ReplayedPredictions(quantiles[estimator.at], quantiles)


def step(estimator: Estimator, jobs: Jobs, machine: Machine, line: Timeline) -> ReplayedPredictions:
    """Call an online estimator instant by instant, completions before submissions, as a simulation does.

    Raises: PolicyError where the estimator breaks its contract.
    """
    if not isinstance(estimator, OnlineEstimator):
        raise PolicyError(
            f"is asked {estimator.asked}, but has no predict_rows() and learn()",
            where=type(estimator).__name__,
            hint='write both, or set asked = "once"',
        )
    option = reference_options(jobs, machine)
    mean, top = _measured(jobs)
    power = np.full(len(jobs), np.nan)
    quantiles: dict[float, Floats] = {}
    estimator.predict(jobs_for(estimator, jobs), machine)
    taught = 0  # rows of line.by_end that the estimator has learned
    for rows, now in instants(jobs, line):
        until = taught + int(np.searchsorted(line.end_s[line.by_end[taught:]], now, side="right"))
        if until > taught:
            done = line.by_end[taught:until].astype(np.int32)
            estimator.learn(Finished(done, line.end_s[done], mean[done], top[done]))
            taught = until
        for q, watts in _asked_quantiles(estimator, rows, now).items():
            quantiles.setdefault(q, np.full(len(jobs), np.nan))[rows] = watts[np.arange(len(rows)), option[rows]]
        # Only the reference option counts here: what DVFS does to a job cannot be compared with a trace.
        power[rows] = _asked(estimator, rows, now, len(machine.option_partition))[np.arange(len(rows)), option[rows]]
    return ReplayedPredictions(power, quantiles)


def instants(jobs: Jobs, line: Timeline) -> list[tuple[Ints, float]]:
    """Return the rows that are submitted together, and when, instant by instant."""
    if len(jobs) == 0:
        return []
    submit = jobs.submit_s[line.by_submit]
    first = np.flatnonzero(np.diff(submit, prepend=-np.inf))
    rows = np.split(line.by_submit.astype(np.int32), first[1:])
    return list(zip(rows, submit[first].tolist(), strict=True))


def _asked(estimator: OnlineEstimator, rows: Ints, now: float, options: int) -> Floats:
    """Return ``predict_rows`` with its shape checked. Shape (k, O)."""
    watts = np.asarray(estimator.predict_rows(rows, now), np.float64)
    if watts.shape != (len(rows), options):
        raise PolicyError(
            f"predict_rows() gave shape {watts.shape} for {len(rows)} jobs and {options} options",
            where=type(estimator).__name__,
            hint=f"return an array of shape ({len(rows)}, {options})",
        )
    return watts


def _asked_quantiles(estimator: OnlineEstimator, rows: Ints, now: float) -> dict[float, Floats]:
    """Return quantiles (k, O) where the estimator has the optional method ``predict_quantiles``."""
    return estimator.predict_quantiles(rows, now) if isinstance(estimator, QuantileEstimator) else {}


def _measured(jobs: Jobs) -> tuple[Floats, Floats]:
    """Return mean and highest watts of one unit as the trace has them, NaN unknown. Shapes (n,)."""
    unknown: NDArray[np.float64] = np.full(len(jobs), np.nan)
    mean = unknown if jobs.mean_power_w is None else jobs.mean_power_w
    return mean, unknown if jobs.max_power_w is None else jobs.max_power_w
