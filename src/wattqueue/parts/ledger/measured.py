"""Count what power sensors show of running jobs, and predictions where they show nothing yet.

A job counts its share of the latest samples of its sensors. Until a sample has been taken that covers only its own run,
it counts its prediction; where the sample is missing or stale, the maximum of its units. So a job that draws less than
was predicted makes room for others, and one that draws more takes it from them.

What a sample shows changes before the next one, and over the phases of a job. ``deviations`` keeps a margin for that,
which follows from what runs as that of a chance ledger does. How long a sample averages is the sensor's: a reading of
one period is a job's present watts, one over ten minutes its recent mean, and its prediction for the first ten.

Rule 15 of docs/semantics.md; the kernels are in ``kernels/measured.py``.
"""

from __future__ import annotations

from typing import ClassVar, get_args

from wattqueue.errors import PolicyError
from wattqueue.model.power_sensor import IDLE_TOLERANCE
from wattqueue.parts.run_contracts import NoMargin, Read, Share


class Measured(NoMargin):
    """A ledger of measured watts.

    Args:
        read: ``period``: sensors are read at each whole multiple of their own period of readings; ``submission``: when
            a job is submitted.
        share: ``even``: each unit has an equal share of its sensor's sample, idle ones too (as paper 3 spreads a
            socket's reading over its cores). ``busy``: idle units count idle watts, and those whose jobs the
            sample covers share the rest. With ``even`` a busy unit beside idle ones counts less than it draws until
            these are in use, too.
        stale_s: Age at which a sample is stale; by default three periods of the sensor and its readings.
        ages: A sample also becomes stale while nobody reads the sensor. Otherwise it is stale only where the sensor
            gave nothing newer when it was read.
        idle_tolerance: Share by which a sample may be below idle watts and counts as idle; below that it is missing.
        deviations: Standard deviations of the sum of running jobs that stay free below the cap; 0 is no margin. Only
            the greedy passes (none, first-fit, EASY) support one, as of a chance ledger.
        own: Variance of a job's watts above idle about their mean, relative to it squared. The default is the mean over
            ten real jobs of Marconi100 at 240 W idle. Jobs are taken as independent.

    Raises: PolicyError for a choice that does not exist, and figures out of range.
    Reference: paper 3, sections 3.2 and 4.3; the default of ``stale_s`` is assumed.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("limit",)
    called: ClassVar[str] = "a ledger of measured watts"
    counts_samples: ClassVar[bool] = True
    """Whether it counts what power sensors show."""
    follows_power: ClassVar[bool] = True
    """Whether what it counts falls with what jobs draw, so that maxima at their starts promise nothing."""

    def __init__(
        self,
        *,
        read: Read = "period",
        share: Share = "even",
        stale_s: float | None = None,
        ages: bool = False,
        idle_tolerance: float = IDLE_TOLERANCE,
        deviations: float = 0.0,
        own: float = 0.08,
    ) -> None:
        for name, value, known in (("read", read, get_args(Read)), ("share", share, get_args(Share))):
            if value not in known:
                raise PolicyError(f"is {value!r}", where=f"measured: {name}", hint=f"one of {', '.join(known)}")
        if stale_s is not None and not 0.0 < stale_s < float("inf"):
            raise PolicyError(f"is {stale_s}", where="measured: stale_s", hint="seconds above 0")
        if not 0.0 <= idle_tolerance <= 1.0:
            raise PolicyError(f"is {idle_tolerance}", where="measured: idle_tolerance", hint="a share between 0 and 1")
        for name, figure in (("deviations", deviations), ("own", own)):
            if not 0.0 <= figure < float("inf"):
                raise PolicyError(f"is {figure}", where=f"measured: {name}", hint="a number of 0 or more")
        self.read, self.share, self.stale_s = read, share, stale_s
        self.ages, self.idle_tolerance = ages, idle_tolerance
        self.deviations, self.own = deviations, own

    @property
    def terms(self) -> tuple[float, float, float] | None:
        """Return the terms of the margin as ``Chance`` does: share, own variance, common variance; None without one."""
        return (1.0, self.deviations**2 * self.own, 0.0) if self.deviations > 0 else None
