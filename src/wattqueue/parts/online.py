"""Base of the estimators that learn from finished jobs: a part implements four short methods.

``reset`` (forget), ``watts`` (predict jobs that arrive), ``take_in`` (learn jobs that ended) and ``replay_watts`` (the
same for a whole trace at once). This class adds the contract around them: the choice between simulated and recorded
completions, the order of ends, the fallback to the unit's maximum and the spread over options.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError, PolicyError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Finished, Ints, Prediction
from wattqueue.parts.scale import Scale, static_prediction

if TYPE_CHECKING:
    from wattqueue.parts.timeline import Timeline

Target = Literal["mean", "max"]
"""Which watts of a job are learned and predicted: mean or highest over its run."""
Completions = Literal["simulated", "trace"]
"""Whose ends count: those of the simulated timeline, or those recorded in the trace."""


@runtime_checkable
class QuantileReplay(Protocol):
    """An estimator that can replay the quantiles of a whole trace at once."""

    quantiles: tuple[float, ...]
    """Probabilities, rising."""
    at: float
    """The one that serves as the prediction."""

    def replay_quantiles(self, jobs: Jobs, line: Timeline) -> Floats:
        """Return every job's quantiles at its submission. Shape (n, Q)."""
        ...


class OnlineBase(ABC):
    """An online estimator: predicts at submission, learns as jobs end.

    With ``completions = "trace"`` the ends are known before the run, so the estimator becomes a static one
    (``asked = "once"``): its predictions do not depend on the simulated schedule, which is what papers that compare
    predictors do. In a simulation it is an oracle, because a job may end later there than in the trace.

    Raises: PolicyError for an unknown option; InputError for ends that are learned out of order.
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

    @property
    def knows_future(self) -> bool:
        """Return whether the estimator is an oracle: recorded ends are not those of a simulated schedule."""
        return self.completions == "trace"

    @abstractmethod
    def reset(self, jobs: KnownJobs) -> None:
        """Forget everything, and take what is known of the jobs that will be asked for."""

    @abstractmethod
    def watts(self, rows: Ints, now_s: float) -> Floats:
        """Return watts of one unit at the reference frequency for jobs that arrive now; NaN unknown. Shape (k,)."""

    @abstractmethod
    def take_in(self, rows: Ints, end_s: Floats, watts: Floats) -> None:
        """Learn jobs in order of their ends; ``watts`` may be NaN or 0 where nothing was measured."""

    @abstractmethod
    def replay_watts(self, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
        """Return what ``watts`` would answer at every submission of a whole trace. Shape (n,)."""

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Reset, and return the prediction before any job has ended: the unit's maximum for every job (C = 1).

        With recorded completions: the prediction of every job (C = n).
        """
        from wattqueue.parts.timeline import trace_timeline

        self._scale, self._last_end_s = Scale.of(machine), -np.inf
        self.reset(jobs)
        if self.asked == "once":
            return static_prediction(self.replay(jobs.truth, trace_timeline(jobs.truth)), machine)
        return static_prediction(np.full(1, np.nan), machine, np.zeros(len(jobs), np.int32))

    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        """Return watts of one unit for the jobs that arrive now, by option. Shape (k, O)."""
        return self.apply(self.watts(rows, now_s))

    def apply(self, watts: Floats) -> Floats:
        """Return watts at the reference frequency (k,) by option, gaps filled with the unit's maximum. Shape (k, O).

        What stands between the figure that is learned and the watts that are predicted; ``invert`` leads back.
        """
        if self._scale is None:
            raise PolicyError("asked before it was given jobs and machine", where=type(self).__name__)
        return self._scale.apply(watts)

    def learn(self, finished: Finished) -> None:
        """Learn jobs that ended since the last call, in order of their ends.

        With target ``max``, a job whose highest watts are unknown is learned with its mean.
        Raises: InputError for an end before one that was learned earlier: the sums of a history cannot be reordered.
        """
        if len(finished.rows) == 0:
            return
        ends = finished.end_s
        if ends[0] < self._last_end_s or (len(ends) > 1 and (np.diff(ends) < 0).any()):
            raise InputError(
                f"a job that ended at {ends.min()} s was learned after one of {max(self._last_end_s, ends.max())} s",
                where=type(self).__name__,
                hint="pass finished jobs in order of their ends",
            )
        self._last_end_s = float(ends[-1])
        self.take_in(finished.rows, ends, self.invert(finished))

    def invert(self, finished: Finished) -> Floats:
        """Return the figure that each of some jobs teaches, from what was measured: as it is, at any frequency.

        Under a GPU limit what the job would draw without it, else it would be admitted without it at these watts.
        Shape (k,).
        """
        watts = finished.mean_power_w
        if self.target == "max":
            watts = np.where(np.isnan(finished.max_power_w), watts, finished.max_power_w)
        if finished.runs is None or self._scale is None:
            return watts
        return self._scale.without_limits(watts, finished.runs.option)

    def replay(self, jobs: Jobs, line: Timeline) -> Floats:
        """Return every job's prediction at its submission from only the jobs that had ended by then. Shape (n,).

        Equals calling ``learn`` and ``predict_rows`` job by job; NaN where nothing had finished.
        """
        from wattqueue.parts.timeline import job_watts

        return self.replay_watts(jobs, line, job_watts(jobs, self.target))


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise PolicyError(f"is {value!r}", where=name, hint=f"use one of {', '.join(known)}")


def measured(watts: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which watts are a measurement: neither NaN nor 0 (a sensor that was off). Shape as ``watts``."""
    return np.greater(watts, 0.0, where=~np.isnan(watts), out=np.zeros(watts.shape, np.bool_))
