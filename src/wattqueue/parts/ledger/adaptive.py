"""Count predicted watts with a margin that learns from a meter of the whole machine how often the cap was exceeded.

A chance ledger computes its margin from what its variances say. Where these are wrong (phases that wide jobs share,
habits that change), the cap is exceeded more often than was asked. This ledger measures that, and corrects itself:
power that deviates from what was admitted by more than the margin raises it, time during which it holds a job back
lowers it, and the seconds above the cap in the last 30 days are counted against an allowance. The noise of the meter is
allowed for: a deviation is relative to what predictions and noise explain together. Rule 15 of docs/semantics.md; the
kernels are in ``kernels/site_meter.py``.
"""

from __future__ import annotations

import math
from typing import ClassVar

from wattqueue.errors import PolicyError
from wattqueue.parts.run_contracts import NoMargin


class Adaptive(NoMargin):
    """A ledger that keeps the time above the cap within ``epsilon`` of any ``window_days``.

    Args:
        epsilon: Share of the window that power may be above the cap.
        window_days: The window.
        aim: Share of the allowance to use, so that an unlucky month stays within it.
        gain: How far the margin rises where it was too small for as long as the whole allowance, in standard
            deviations; the rest of the time it comes down by ``aim * gain`` a window while it holds a job back.
        caution: How strongly the margin grows as the allowance of the last window runs out.
        begin: Standard deviations to keep free at first.
        most: Most standard deviations that a spent allowance asks for, relative to the greatest deviation of power in
            the last window (``begin`` where that is greater).
        forget_s: Time constant of the ratio of power to predictions.
        own: Relative variance of a job's error, as in a chance ledger; only its ratio to ``common`` and to the noise,
            and the way that the margin follows the mix, matter, since z is learned.
        common: Relative variance that all jobs share.
        meter_s: Seconds between two readings of the meter; a reading is the mean since the one before.
        late: Readings by which the meter is late.
        noise: Standard deviation of a reading, relative to its watts: what is allowed for, and in a simulation what the
            meter has.

    Raises: PolicyError for figures out of range.
    Reference: Gibbs and Candes 2021, 10.48550/arXiv.2106.00170; Angelopoulos, Candes and Tibshirani 2023,
    10.48550/arXiv.2307.16895. All defaults are ours (docs/powercap-months.md).
    """

    acts_on: ClassVar[tuple[str, ...]] = ("limit",)
    called: ClassVar[str] = "an adaptive ledger"
    metered: ClassVar[bool] = True
    """Whether its margin follows from a meter of the whole machine."""

    def __init__(  # noqa: PLR0913  a learning rule and a meter have as many settings
        self,
        *,
        epsilon: float = 0.01,
        window_days: float = 30.0,
        aim: float = 0.5,
        gain: float = 16.0,
        caution: float = 2.0,
        begin: float = 4.0,
        most: float = 1.5,
        forget_s: float = 300.0,
        own: float = 0.11,
        common: float = 0.002,
        meter_s: float = 60.0,
        late: int = 1,
        noise: float = 0.01,
    ) -> None:
        if not 0.0 < epsilon <= 0.5:
            raise PolicyError(
                f"is {epsilon}", where="adaptive: epsilon", hint="use a share of time above 0 and at most 0.5"
            )
        above = {"window_days": window_days, "most": most, "forget_s": forget_s, "meter_s": meter_s}
        from_0 = {"aim": aim, "gain": gain, "caution": caution, "begin": begin, "own": own, "common": common,
                  "late": late, "noise": noise}  # fmt: skip
        for name, value in {**above, **from_0}.items():
            if not (0.0 <= value < math.inf and (value > 0.0 or name in from_0)):
                raise PolicyError(f"is {value}", where=f"adaptive: {name}", hint="use a finite number, not below 0")
        if aim > 1.0 or most < 1.0 or late != int(late) or meter_s > window_days * 86_400.0:
            raise PolicyError(
                f"{aim=}, {most=}, {late=}, {meter_s=}", where="adaptive: aim, most, late, meter_s",
                hint="aim is at most 1, most at least 1, late whole, meter_s at most the window",
            )  # fmt: skip
        self.epsilon, self.window_days, self.aim, self.gain = epsilon, window_days, aim, gain
        self.caution, self.begin, self.most, self.forget_s = caution, begin, most, forget_s
        self.own, self.common, self.meter_s, self.late, self.noise = own, common, meter_s, int(late), noise

    @property
    def promise(self) -> str:
        """Return what is promised about power, and measured by the meter."""
        return f"above the cap for at most {100.0 * self.epsilon:g} % of {self.window_days:g} days"

    @property
    def terms(self) -> tuple[float, float, float]:
        """Return what the compiled pass begins with: share, z^2 own, z^2 common (pure numbers)."""
        z = self.begin
        return 1.0, z * z * self.own, z * z * self.common
