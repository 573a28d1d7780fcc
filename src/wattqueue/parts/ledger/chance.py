"""Count predicted watts with a margin computed from the running jobs, so that P(power > cap) <= epsilon.

Errors of predictions partly cancel over many jobs: independent ones grow with the root of the sum of squares, common
ones (a hot day, a biased estimator) with the sum itself. A constant margin must cover the worst mix; this one follows
the mix that runs.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import ClassVar

from wattqueue.errors import PolicyError
from wattqueue.parts.run_contracts import NoMargin


class Chance(NoMargin):
    """A job starts if, with it, ``share (x + z sqrt(own s2 + common x^2))`` stays within the cap.

    x sums the net predictions of running jobs, s2 their squares; z is ``deviations``, or else the normal quantile
    of 1 - ``epsilon``. Real errors have longer tails than the normal distribution, which ``deviations`` can allow for.
    ``share``: watts drawn for a watt predicted; ``own``: variance of a job's relative error; ``common``: the part
    of it that all running jobs share, their correlation times their variance. All three come from residuals of
    the past (the powercap study). The defaults are those of generated Marconi100 jobs predicted by history-mean while
    such a ledger admits them: errors weighted by watts and time, and a month's bias among what is common
    (docs/powercap-frontier.md). A reservation counts the margin of what still runs at its shadow time, with the
    reserved job. Only the greedy passes (none, first-fit, EASY) support it: a plan would need the margin of each of its
    instants.

    Raises: PolicyError for an epsilon outside (0, 0.5], a share that is not above 0, or a negative variance.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("limit",)
    called: ClassVar[str] = "a chance ledger"

    def __init__(
        self,
        *,
        epsilon: float = 0.01,
        share: float = 1.0,
        own: float = 0.18,
        common: float = 0.03,
        deviations: float | None = None,
    ) -> None:
        if not 0.0 < epsilon <= 0.5:
            raise PolicyError(
                f"is {epsilon}", where="chance: epsilon", hint="use a probability above 0 and at most 0.5"
            )
        if not (share > 0.0 and own >= 0.0 and common >= 0.0):
            raise PolicyError(
                f"{share=}, {own=}, {common=}",
                where="chance: share, own, common",
                hint="use a share above 0 and variances of 0 or more",
            )
        self.epsilon, self.share, self.own, self.common = epsilon, share, own, common
        self.deviations = NormalDist().inv_cdf(1.0 - epsilon) if deviations is None else deviations
        if not self.deviations >= 0.0:
            raise PolicyError(
                f"is {deviations}", where="chance: deviations", hint="use 0 or more, or leave it to epsilon"
            )

    @property
    def promise(self) -> str:
        """Return what is promised about power; nothing measures whether it is kept."""
        return f"above the cap with a probability of {100.0 * self.epsilon:g} %, if its variances are right"

    @property
    def terms(self) -> tuple[float, float, float]:
        """Return what the compiled pass computes with: share, z^2 own, z^2 common (pure numbers)."""
        z = self.deviations
        return self.share, z * z * self.own, z * z * self.common
