"""A base and corrections, in their written order, as one estimator: ``estimator = ["history-mean", "unit-factors"]``.

What the base predicts goes through ``apply`` of each correction; what was measured goes through ``invert`` of each, in
the reverse order, before the base learns it. To everything else (the compiled loop, a session, a live controller) this
is an estimator like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import (
    Asked,
    Estimator,
    Finished,
    Floats,
    Ints,
    LoopTerms,
    PowerCorrection,
    Prediction,
)
from wattqueue.parts.oracles import is_oracle
from wattqueue.parts.scale import Scale
from wattqueue.policy.interfaces import method_of, stated
from wattqueue.policy.registry import part_name


@dataclass(frozen=True, slots=True, eq=False)
class MostWatts:
    """What corrections may make of a prediction at most: no unit draws more than its stated maximum.

    Nor more than the base predicts where that is above it: what was measured says more then.
    """

    full_w: Floats
    """Maximum of a unit by option, NaN where none is stated. Shape (O,)."""
    greatest: Floats
    """Greatest factor of a unit by application, the last row for jobs without one, and option. Shape (A + 1, O)."""

    @classmethod
    def of(cls, machine: Machine, found: Prediction, apps: int) -> MostWatts:
        """Look up maxima and factors on a machine; one row of ones where units are equal.

        Likewise where the table is not one of the applications and units: whoever uses it refuses that.
        """
        from wattqueue.parts.unit_tables import greatest_factors

        full_w = Scale.of(machine).apply(np.full(1, np.nan))[0]
        if found.unit_factor is None or found.unit_factor.shape != (apps, machine.units):
            return cls(full_w, np.ones((1, len(full_w))))
        factor = np.append(found.unit_factor, np.ones((1, machine.units)), axis=0)
        factor[np.isnan(factor)] = 1.0
        return cls(full_w, greatest_factors(factor, machine))

    def hold(self, found: Prediction, told: Prediction, jobs: KnownJobs) -> Prediction:
        """Return a corrected prediction of a whole table within its bounds; ``told`` is the base's.

        Jobs that share a row have one each for their applications then, since the factors of these differ.
        """
        if len(self.greatest) == 1 and found.power_w.shape == told.power_w.shape and found.row is told.row:
            return self.held(found, told, np.full(len(found.power_w), -1))
        if not len(jobs):
            return found
        every, app = np.arange(len(jobs), dtype=np.int32), jobs.app.codes.astype(np.int64)
        kinds = (found.rows(every).astype(np.int64) * len(jobs) + told.rows(every)) * len(self.greatest) + app + 1
        _, first, row = np.unique(kinds, return_index=True, return_inverse=True)
        of_kind = first.astype(np.int32)
        held = self.held(found.take(of_kind), told.take(of_kind), jobs.app.codes[first])
        return replace(held, row=row.astype(np.int32))

    def held(self, found: Prediction, told: Prediction, app: NDArray[np.integer]) -> Prediction:
        """Return a corrected prediction of k jobs, a row for each, within its bounds. ``app`` (k,): their codes."""
        greatest = self.greatest[app if len(self.greatest) > 1 else np.zeros(len(app), np.int64)]

        def least(watts: Floats, given: Floats) -> Floats:
            most = np.maximum(self.full_w, given) / greatest
            return np.where(watts > most, most, watts)

        quantiles = {q: least(watts, told.quantiles[q]) for q, watts in found.quantiles.items()}
        return replace(found, power_w=least(found.power_w, told.power_w), quantiles=quantiles)


class Corrected:
    """An estimator, and what corrects it.

    A past is remembered as it was measured: nobody knows on which units its jobs ran.
    """

    def __init__(self, base: Estimator, corrections: Sequence[PowerCorrection]) -> None:
        """Take a base, and at least one correction. Raises: PolicyError for a correction that occurs twice."""
        self.base, self.corrections = base, tuple(corrections)
        kinds = [part_name(type(each)) for each in corrections]
        twice = next((kind for kind in kinds if kinds.count(kind) > 1), None)
        if twice is not None:
            raise PolicyError(f"correction {twice} occurs twice", hint="name it once")
        self._asked: tuple[KnownJobs, Machine] | None = None
        self._most = MostWatts(np.zeros(0), np.zeros((1, 0)))

    @property
    def parts(self) -> tuple[Any, ...]:
        """Return the base and the corrections, as a row lists them."""
        return (self.base, *self.corrections)

    @property
    def asked(self) -> Asked:
        """Return when the base predicts."""
        return self.base.asked

    @property
    def machine_figures(self) -> bool:
        """Return whether the base predicts the machine's own maxima, and no correction less (rule 4)."""
        own = bool(stated(self.base, "machine_figures", False))
        return own and not any(stated(each, "lowers", False) for each in self.corrections)

    @property
    def knows_future(self) -> bool:
        """Return whether the base or a correction is an oracle."""
        return any(is_oracle(each) for each in self.parts)

    @property
    def keeps_base(self) -> bool:
        """Return whether jobs of applications without factors of units keep the base's prediction (rule 12)."""
        return any(stated(each, "keeps_base", False) for each in self.corrections)

    @property
    def remember(self) -> Callable[..., Any] | None:
        """Return how the base takes in a past; None where it cannot."""
        return method_of(self.base, "remember")

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Reset the base, and return its prediction before any job has ended, corrected."""
        self._asked = jobs, machine
        told = self.base.predict(jobs, machine)
        found = self._apply(told, jobs)
        self._most = MostWatts.of(machine, found, len(jobs.app.names))
        return self._most.hold(found, told, jobs)

    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        """Return the watts of one unit of the jobs that arrive now, by option. Shape (k, O)."""
        asked: Any = self.base
        watts = np.asarray(asked.predict_rows(rows, now_s), np.float64)
        return self._of_arrivals(Prediction(watts, np.ones_like(watts)), rows).power_w

    def predict_quantiles(self, rows: Ints, now_s: float) -> dict[float, Floats]:
        """Return the quantiles of the jobs that arrive now; none where the base has none. Shapes (k, O)."""
        asked = method_of(self.base, "predict_quantiles")
        quantiles = {} if asked is None else asked(rows, now_s)
        if not quantiles:
            return {}
        watts = next(iter(quantiles.values()))
        return self._of_arrivals(Prediction(watts, np.ones_like(watts), None, quantiles), rows).quantiles

    def learn(self, finished: Finished) -> None:
        """Let the base learn jobs that ended, without what the corrections stand for."""
        taught: Any = self.base
        jobs, machine = self._jobs, self._machine
        inverted = reduce(lambda left, each: each.invert(left, jobs, machine), reversed(self.corrections), finished)
        taught.learn(inverted)

    def loop_terms(self) -> LoopTerms | None:
        """Return all corrections as the compiled loop carries them out; None where one of them needs Python."""
        found = []
        for each in self.corrections:
            asked = method_of(each, "loop_terms") if "loop_terms" in vars(type(each)) else None
            if asked is None:
                return None
            found.append(asked())
        margin = reduce(lambda product, terms: product * terms.margin, found, 1.0)
        return LoopTerms(margin, any(terms.by_unit for terms in found))

    def _of_arrivals(self, told: Prediction, rows: Ints) -> Prediction:
        """Return a prediction of jobs that arrive, a row for each, corrected."""
        jobs = self._jobs.take(rows)
        return self._most.held(self._apply(told, jobs), told, jobs.app.codes)

    def _apply(self, predicted: Prediction, jobs: KnownJobs) -> Prediction:
        """Return what every correction makes of a prediction of ``jobs``, in their order."""
        machine = self._machine
        return reduce(lambda left, each: each.apply(left, jobs, machine), self.corrections, predicted)

    @property
    def _jobs(self) -> KnownJobs:
        return self._known()[0]

    @property
    def _machine(self) -> Machine:
        return self._known()[1]

    def _known(self) -> tuple[KnownJobs, Machine]:
        """Return what it was asked about. Raises: PolicyError before predict()."""
        if self._asked is None:
            raise PolicyError("asked before it was given jobs and machine", where=type(self.base).__name__)
        return self._asked


def base_of(estimator: Any) -> Any:
    """Return the estimator that is corrected; one without corrections itself."""
    return estimator.base if isinstance(estimator, Corrected) else estimator


def with_base(estimator: Estimator, base: Estimator) -> Estimator:
    """Return an estimator with another base, and the same corrections."""
    return cast("Estimator", Corrected(base, estimator.corrections)) if isinstance(estimator, Corrected) else base
