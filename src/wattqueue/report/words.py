"""Format numbers for people: durations, watts, joules and shares with three or four significant digits.

``page/core.js`` follows the same rules in JavaScript.
"""

from __future__ import annotations

import math

SPANS = ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
"""Units of durations with their seconds, the longest first."""
PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
"""SI prefixes with their factors, the largest first."""


def figures(value: float, digits: int = 3) -> str:
    """Return a number with ``digits`` significant digits, thousands separated, without an exponent below 1e15.

    Examples: 0.08333 -> ``0.0833``, 1234.5 -> ``1,235``, 4.0 -> ``4``, NaN -> ``–``. Trailing zeros after the point
    are dropped; values below 1e-9 print as 0, since they are what sums leave over. The minus is the typographic one,
    which is as wide as a plus.
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if abs(value) < 1e-9:  # what sums leave over
        return "0"
    whole = math.floor(math.log10(abs(value))) + 1
    text = f"{value:,.{max(0, digits - whole)}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.replace("-", "−")


def count(value: float, one: str, many: str = "") -> str:
    """Return a number and its noun: ``1 job``, ``28,481 jobs``."""
    return f"{value:,.0f} {one if value == 1 else many or one + 's'}"


def span(seconds: float) -> str:
    """Return a duration in its two largest useful units.

    ``33.1 s`` below 100 s, ``5 min 12 s`` below an hour, ``2 h 41 min`` below two days, ``6.9 days`` above. Durations
    of negative sign keep it.
    """
    if not math.isfinite(seconds):
        return figures(seconds)
    size = abs(seconds)
    if size < 99.5:
        return f"{figures(seconds)} s"
    if size < 3_600:
        return _pair(seconds, 60, 1, ("min", "s"))
    if size < 48 * 3_600:
        return _pair(seconds, 3_600, 60, ("h", "min"))
    return f"{figures(seconds / 86_400)} days"


def _pair(seconds: float, large: int, small: int, names: tuple[str, str]) -> str:
    """Return a duration as whole ``large`` and rounded ``small`` units."""
    sign = "−" if seconds < 0 else ""
    whole, rest = divmod(round(abs(seconds) / small), large // small)
    return f"{sign}{whole} {names[0]}" + (f" {rest} {names[1]}" if rest else "")


def si(value: float, unit: str) -> str:
    """Return a value with the prefix that leaves one to three digits before the point: ``4.1 kW``.

    The prefix is chosen for this value alone; tables with one unit per column use ``prefix_of`` of their largest
    value.
    """
    factor, prefix = prefix_of(value)
    return f"{figures(value / factor)} {prefix}{unit}"


def prefix_of(value: float) -> tuple[float, str]:
    """Return factor and prefix for a value: (1e3, "k") for 4,100."""
    size = abs(value)
    if math.isfinite(size):
        for factor, prefix in PREFIXES:
            if size >= factor:
                return factor, prefix
    return 1.0, ""


def watts(value: float) -> str:
    """Return a power: ``4.1 kW``."""
    return si(value, "W")


def energy(joules: float) -> str:
    """Return an energy in watt-hours, the unit of the bill: ``29.4 MWh``."""
    return si(joules / 3_600.0, "Wh")


def percent(share: float) -> str:
    """Return a share of one in percent: ``81.2 %``."""
    return f"{figures(100 * share)} %"


def wait_unit(seconds: float) -> tuple[float, str]:
    """Return scale and unit for a table of waits up to ``seconds``: hours, minutes or seconds, never days.

    Two whole units must fit, so that most values of the table have a digit before the point.
    """
    return next(((factor, unit) for factor, unit in SPANS[1:] if seconds >= 2 * factor), (1.0, "s"))


def span_unit(seconds: float) -> tuple[float, str]:
    """Return scale and unit for an axis of this length, such that at least three whole units fit.

    Three days and more are counted in days, three hours and more in hours, and so on down to seconds.
    """
    for factor, unit in SPANS:
        if seconds >= 3 * factor:
            return factor, unit
    return 1.0, "s"
