"""The frame of estimators that learn from finished jobs: a part fills in four short methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError, PolicyError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Finished, Ints, Prediction
from wattqueue.parts.estimator._scale import Scale, static_prediction
from wattqueue.parts.timeline import Timeline, job_watts, trace_timeline

Target = Literal["mean", "max"]
Completions = Literal["simulated", "trace"]


class OnlineBase(ABC):
    """Asked at submission, taught as jobs end.

    ``target`` says which watts are learned and predicted. ``completions`` says whose ends count:
    those of the ``simulated`` time line, or those of the ``trace``; the latter are known before
    the run, so that such an estimator is asked once.

    Raises: PolicyError for an unknown option; InputError for ends that are taught out of order.
    """

    asked: Asked
    machine_figures: bool = False

    def __init__(
        self, *, target: Target = "mean", completions: Completions = "simulated", asked: Asked = "at_submit"
    ) -> None:
        _one_of("target", target, get_args(Target))
        _one_of("completions", completions, get_args(Completions))
        self.target, self.completions = target, completions
        self.asked = "once" if completions == "trace" else asked
        self._last_end_s = -np.inf
        self._scale: Scale | None = None

    @abstractmethod
    def reset(self, jobs: Jobs) -> None:
        """Forget everything; ``jobs`` gives users and what they asked for, never what came of it."""

    @abstractmethod
    def watts(self, rows: Ints, now_s: float) -> Floats:
        """Watts of one unit at the reference frequency for jobs that arrive now; NaN unknown. Shape (k,)."""

    @abstractmethod
    def take_in(self, rows: Ints, end_s: Floats, watts: Floats) -> None:
        """Learn jobs in order of their ends; ``watts`` may be NaN or 0 where nothing was measured."""

    @abstractmethod
    def replay_watts(self, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
        """What ``watts`` would answer at every submission of a whole trace. Shape (n,)."""

    def predict(self, jobs: Jobs, machine: Machine) -> Prediction:
        """Start afresh. The state before any job: the unit's maximum; for ends of the trace, every job's watts."""
        self._scale, self._last_end_s = Scale.of(machine), -np.inf
        self.reset(jobs)
        if self.asked == "once":
            return static_prediction(self.replay(jobs, trace_timeline(jobs)), machine)
        return static_prediction(np.full(1, np.nan), machine, np.zeros(len(jobs), np.int32))

    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        """Watts of one unit for the jobs that arrive now. Shape (k, O)."""
        return self.scale(self.watts(rows, now_s))

    def scale(self, watts: Floats) -> Floats:
        """Watts at the reference frequency (k,), gaps filled with the unit's maximum, by option. Shape (k, O)."""
        if self._scale is None:
            raise PolicyError("asked before it was given jobs and machine", where=type(self).__name__)
        return self._scale.by_option(watts)

    def learn(self, finished: Finished) -> None:
        """Jobs that ended since the last call, in order of their ends."""
        if len(finished.rows) == 0:
            return
        ends = finished.end_s
        if ends[0] < self._last_end_s or (len(ends) > 1 and (np.diff(ends) < 0).any()):
            raise InputError(
                f"a job that ended at {ends.min()} s was taught after one of {max(self._last_end_s, ends.max())} s",
                where=type(self).__name__,
                mend="teach finished jobs in order of their ends",
            )
        self._last_end_s = float(ends[-1])
        power = finished.mean_power_w
        if self.target == "max":
            power = np.where(np.isnan(finished.max_power_w), power, finished.max_power_w)
        self.take_in(finished.rows, ends, power)

    def replay(self, jobs: Jobs, line: Timeline) -> Floats:
        """Every job predicted at its submission with only what had ended by then, in one go. Shape (n,).

        Equals asking and teaching job by job; NaN where nothing had finished.
        """
        return self.replay_watts(jobs, line, job_watts(jobs, self.target))


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise PolicyError(f"{name} {value!r}", mend=f"use one of {', '.join(known)}")


def measured(watts: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which watts are a measurement: a unit that ran a job drew more than 0. Shape as ``watts``."""
    return np.greater(watts, 0.0, where=~np.isnan(watts), out=np.zeros(watts.shape, np.bool_))
