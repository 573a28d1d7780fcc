"""A margin on what is predicted: watts and quantiles times one factor."""

from __future__ import annotations

from dataclasses import replace

from wattqueue.errors import PolicyError
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Finished, LoopTerms, Prediction


class Margin:
    """Multiply predicted watts and quantiles by ``factor``; factors of units stay.

    Up to what a unit can draw: an estimator that predicts the stated maximum gains nothing by a margin.

    What is measured holds no margin, so that jobs teach what they drew. A margin below 1 predicts less than the base,
    and then the machine's own maxima reject no job.

    Raises: PolicyError for a factor that is not above 0 and at most 10.
    """

    remedy: str = '{ part = "margin", factor = 1.05 }'
    """What to write where it has no effect."""

    def __init__(self, *, factor: float = 1.0) -> None:
        if not 0.0 < factor <= 10.0:
            raise PolicyError(f"factor is {factor:g}", where="margin", hint="above 0, at most 10: 1.05 adds 5 %")
        self.factor = float(factor)

    @property
    def missing(self) -> str:
        """Return what it lacks: a factor that changes anything."""
        return "a factor other than 1" if self.factor == 1.0 else ""

    @property
    def lowers(self) -> bool:
        """Return whether it predicts less than the base."""
        return self.factor < 1.0

    def apply(self, predicted: Prediction, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return the prediction with watts and quantiles multiplied."""
        quantiles = {q: watts * self.factor for q, watts in predicted.quantiles.items()}
        return replace(predicted, power_w=predicted.power_w * self.factor, quantiles=quantiles)

    def invert(self, finished: Finished, jobs: KnownJobs, machine: Machine) -> Finished:
        """Return what was measured, as it is."""
        return finished

    def loop_terms(self) -> LoopTerms:
        """Return the factor, which the compiled loop multiplies by."""
        return LoopTerms(margin=self.factor)
