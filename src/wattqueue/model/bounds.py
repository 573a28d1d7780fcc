"""Limits of every number that enters WattQueue, each with its unit and the reason for it.

Readers, options and the tables of ``wattqueue.model`` check against these limits, so that no later step has to expect
a figure that overflows, takes all memory or makes a run endless. A limit lies far above what real machines and traces
contain; a figure beyond it is a typing error, a wrong unit or a "no value" mark, and is refused with its place.

The limits belong together. The ledger sums int64 microwatts (rule 13 of docs/semantics.md), whose largest value is
9.22e18. A job and a machine have at most ``UNITS.high`` = 2**24 units, a unit draws at most ``UNIT_W.high`` = 2e5 W,
so the watts of the widest job, or of a whole machine, are at most 3.36e12 W = 3.36e18 uW: sums of two such figures
(running jobs plus idle nodes) fit as well. Whoever raises one of the two must lower the other; ``tests/model`` checks
the product.

Use::

    bounds.UNIT_W.require(idle_w, "idle_w", where="partition batch", kind=MachineError)
    good = bounds.TIME_S.holds(submit_s)                        # a mask, for readers that count unusable rows
    bounds.TIME_S.require_column(submit_s, "submit_s")          # raises with the row number
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattqueue.errors import InputError, WattQueueError
from wattqueue.model import plain_numbers as plain

if TYPE_CHECKING:  # processes without numpy (agent, guard) check numbers, too; who has a column has numpy
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Bound:
    """A closed range of numbers, ``low`` to ``high`` in ``unit``, and the reason for it.

    NaN and infinity are never inside; a caller that gives them a meaning ("unknown", "no cap") tests for them first.
    """

    low: float
    high: float
    unit: str
    """SI unit as it is printed behind a figure; empty for pure numbers."""
    reason: str
    """Why larger (or smaller) figures are refused, as part of a sentence in the hint."""

    @property
    def text(self) -> str:
        """Return the range as people read it: ``0 to 200,000 W``."""
        return f"{_written(self.low)} to {_written(self.high)}{' ' if self.unit else ''}{self.unit}"

    def holds(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values lie inside; NaN does not. Shape as ``values``."""
        inside: NDArray[np.bool_] = (values >= self.low) & (values <= self.high)
        return inside

    def require(
        self,
        value: float,
        name: str,
        *,
        where: str | Path | None = None,
        kind: type[WattQueueError] = InputError,
        hint: str = "",
    ) -> float:
        """Return ``value`` if it lies inside.

        ``name`` is the option, key or column; ``hint`` goes before the reason for the limit.

        Raises: ``kind`` with ``where``, the allowed range and the reason.
        """
        if self.low <= value <= self.high:
            return value
        raise kind(
            f"{name} = {_shown(value)} is outside {self.text}",
            where=where,
            hint=f"{hint}; {self.reason}" if hint else self.reason,
        )

    def require_column(
        self,
        column: NDArray[Any],
        name: str,
        *,
        where: str | Path | None = None,
        kind: type[WattQueueError] = InputError,
        missing: bool = False,
    ) -> None:
        """Check a column; with ``missing``, NaN is allowed. Shape (n,).

        Raises: ``kind`` with the first row that lies outside (rows count from 1) and how many do.
        """
        good = self.holds(column)
        if missing:
            good |= column != column  # noqa: PLR0124  NaN alone differs from itself
        if good.all():
            return
        row = int(good.argmin())
        place = f"column {name}, row {row + 1}"
        raise kind(
            f"{column[row]!s} is outside {self.text}",
            where=f"{where}: {place}" if where is not None else place,
            hint=f"{self.reason}; rows outside the range: {int((~good).sum()):,}",
        )


def _shown(value: float) -> str:
    """A refused figure as the user may have written it: not all digits of 10**300, no numpy type."""
    if isinstance(value, int):
        from decimal import Decimal

        # Decimal, since a whole number of 400 digits is no float.
        return f"{value:,}" if abs(value) < 10**15 else f"{Decimal(value):.6g}"
    return f"{float(value):g}"


def _written(value: float) -> str:
    """A limit with thousands separators up to 1e9, in scientific notation beyond."""
    return f"{value:,.6g}" if value != round(value) or abs(value) > 1e9 else f"{value:,.0f}"


UNITS = Bound(
    1, 2**24, "", "no machine has more nodes, sockets or cores; each one takes memory in every table of nodes"
)
"""Units of a machine, and units of one job. The largest machines have some 1e7 cores."""

TIME_FACTOR = Bound(1, 1e6, "", "run time under a limit, over that without")
"""Points of a curve of run times."""

GPUS_PER_NODE = Bound(0, 1024, "", "no node has more; 0 is a node without GPUs")
"""GPUs of one node."""

UNIT_W = Bound(0, 2e5, "W", "watts of one node; sums over a machine are kept in 64-bit microwatts")
"""Watts of one unit: idle, maximum, booting, or of a job. A rack of 72 GPUs draws 1.3e5 W."""

CAP_W = Bound(0, 1e12, "W", "caps are kept in 64-bit microwatts; for no cap write none")
"""A power cap. Greater than any machine within UNITS x UNIT_W is meant to draw; infinity (no cap) is tested before."""

TIME_S = Bound(*plain.TIME_S, "s", "beyond, float64 cannot hold the microsecond to which times are rounded")
"""An instant on a trace's clock; Unix time reaches the limit in the year 2242 (rule 1 of docs/semantics.md)."""

DURATION_S = Bound(
    1e-6,
    2**32,
    "s",
    "times are kept to the microsecond; more than 136 years, a mark for 'unlimited' or 'no value', is no run time",
)
"""A run time or walltime. Traces write 2**31 - 1 s for "no limit", which must stay readable. Any instant within TIME_S
plus the lower limit is a later instant in float64."""

MEMORY_GB = Bound(1e-6, 1e9, "GB", "memory of one node in GB, not in bytes or MB")
"""Memory of a node; the lower limit keeps the nodes that a job's memory needs countable."""

TRANSITION_S = Bound(0, 604_800, "s", "a node boots or shuts down within a week")
"""Time that a unit takes to boot or to shut down."""

PERIOD_S = Bound(1e-3, 31_622_400, "s", "what happens more often than each millisecond keeps a run from getting on")
"""Seconds between two readings, samples, calls of a control or passes; at most a year."""

FREQUENCY_HZ = Bound(1e6, 1e11, "Hz", "frequencies are in hertz: 2.4 GHz is 2.4e9")
"""Clock frequency of a unit. The lower limit catches frequencies in GHz, MHz or kHz."""

DVFS_ALPHA = Bound(0, 10, "", "published exponents lie between 1 and 3")
"""Exponent of dynamic watts in frequency; above 10 the factor of a low step underflows."""

DVFS_BETA = Bound(
    0, 10, "", "0 is a job whose time does not depend on the frequency, 1 one that is fully compute-bound"
)
"""Sensitivity of run time to frequency."""

SIGNAL = Bound(-1e9, 1e9, "", "prices and intensities are in the unit of the option, such as EUR/MWh or gCO2/kWh")
"""A price (negative ones occur) or carbon intensity in its stated unit; in most currencies far below."""

ALLOWED = Bound(0, 1, "", "1 is a job that may be slowed down or held back during a load target, 0 one that may not")
"""The flag of a job; only its two ends are values."""

SLOWDOWN = Bound(*plain.SLOWDOWN, "", "2 is a job that may take twice its run time at full speed")
"""Greatest run time of a job, as a multiple of the one at full speed."""

PRICE = Bound(*plain.PRICE, "", "what the user asks for one hour of added turnaround, in the currency of the tariff")
"""Price of an added hour."""

CHECKPOINT = Bound(
    *plain.CHECKPOINT, "s", "600 is a job that keeps its work every 600 s, and may be requeued for a load target"
)
"""Seconds of work between two checkpoints of a job."""

COUNT = Bound(1, 2**31 - 1, "", "a whole number that fits 32 bits")
"""Other whole numbers: queue depth, processors of a node, seeds of options that are stored in 32 bits."""
