"""Count predicted watts, corrected by what is measured of each job, with a margin that narrows as it is measured.

At its start a job counts its prediction. Each reading of its own run moves that towards what the job really draws:
after ``even_s`` seconds of measurement both have the same weight. The margin covers what is not known of the jobs that
run: the error of a prediction, which measurement removes, and the phases of a job, which it does not.

The ledger ``measured`` counts the latest sample instead, and forgets the prediction with the first one. A missing or
stale sample adds nothing here: what was known of the job before holds.

Rule 15 of docs/semantics.md; the kernels are in ``kernels/in_flight.py``, for simulation and live operation alike.
"""

from __future__ import annotations

import math
from typing import ClassVar

from wattqueue.errors import PolicyError
from wattqueue.model.power_sensor import IDLE_TOLERANCE
from wattqueue.parts.ledger.measured import Measured
from wattqueue.parts.run_contracts import Read, Share


class InFlight(Measured):
    """A ledger of predictions that are corrected while jobs run.

    Args:
        deviations: Standard deviations of the sum of running jobs that stay free below the cap; 0 is no margin. Only
            the greedy passes (none, first-fit, EASY) support one, as of a chance ledger.
        error: Variance of the error of predicted mean watts above idle, relative to them squared.
        phase: Variance of a job's watts above idle about its own mean, relative to it squared. The default is the mean
            over ten real jobs of Marconi100 at 240 W idle.
        even_s: Seconds of measurement that say as much of a job's mean as its prediction; assumed.
        read, share, idle_tolerance: As of ``Measured``.

    Raises: PolicyError for a choice that does not exist, and figures out of range.
    Reference: a normal mean with a normal prior, Gelman et al., Bayesian Data Analysis, third edition, eq. 2.12. The
    ledger is WattQueue's own.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("limit", "errors")
    called: ClassVar[str] = "a ledger of predictions that measurements correct"
    corrects_by_samples: ClassVar[bool] = True
    """Whether samples correct predictions instead of replacing them."""

    def __init__(
        self,
        *,
        deviations: float = 3.0,
        error: float = 0.03,
        phase: float = 0.08,
        even_s: float = 600.0,
        read: Read = "period",
        share: Share = "even",
        idle_tolerance: float = IDLE_TOLERANCE,
    ) -> None:
        for name, figure in (("deviations", deviations), ("error", error), ("phase", phase)):
            if not 0.0 <= figure < math.inf:
                raise PolicyError(f"is {figure}", where=f"in-flight: {name}", hint="a number of 0 or more")
        if not 0.0 < even_s < math.inf:
            raise PolicyError(f"is {even_s}", where="in-flight: even_s", hint="seconds above 0")
        super().__init__(read=read, share=share, idle_tolerance=idle_tolerance, deviations=deviations)
        self.error, self.phase, self.even_s = error, phase, even_s

    @property
    def terms(self) -> tuple[float, float, float] | None:
        """Return the terms of the margin at a job's start, as ``Chance`` does; None without a margin."""
        return (1.0, self.deviations**2 * (self.error + self.phase), 0.0) if self.deviations > 0 else None

    @property
    def phase_share(self) -> float:
        """Return the share of a job's variance at its start that no measurement takes away."""
        whole = self.error + self.phase
        return self.phase / whole if whole > 0.0 else 1.0
