"""Numbers as people read them: durations, watts, joules, shares, with at most three or four figures."""

from __future__ import annotations

import math

SPANS = ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def figures(value: float, digits: int = 3) -> str:
    """A number with ``digits`` significant figures, thousands separated, no exponent below 1e15."""
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
    """``1 job``, ``28,481 jobs``."""
    return f"{value:,.0f} {one if value == 1 else many or one + 's'}"


def span(seconds: float) -> str:
    """A duration in its two largest useful units: ``312 s``, ``5 min 12 s``, ``2 h 41 min``, ``6.9 days``."""
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
    sign = "−" if seconds < 0 else ""
    whole, rest = divmod(round(abs(seconds) / small), large // small)
    return f"{sign}{whole} {names[0]}" + (f" {rest} {names[1]}" if rest else "")


def si(value: float, unit: str) -> str:
    """A value with the prefix that leaves one to three figures before the point: ``4.1 kW``."""
    factor, prefix = prefix_of(value)
    return f"{figures(value / factor)} {prefix}{unit}"


def prefix_of(value: float) -> tuple[float, str]:
    """Factor and prefix for a value: (1e3, "k") for 4,100."""
    size = abs(value)
    if math.isfinite(size):
        for factor, prefix in PREFIXES:
            if size >= factor:
                return factor, prefix
    return 1.0, ""


def watts(value: float) -> str:
    """Power: ``4.1 kW``."""
    return si(value, "W")


def energy(joules: float) -> str:
    """Energy in watt-hours, the unit of the bill: ``29.4 MWh``."""
    return si(joules / 3_600.0, "Wh")


def percent(share: float) -> str:
    """A share of one as percent: ``81.2 %``."""
    return f"{figures(100 * share)} %"


def span_unit(seconds: float) -> tuple[float, str]:
    """Scale and unit for an axis of this length: at least three whole units fit."""
    for factor, unit in SPANS:
        if seconds >= 3 * factor:
            return factor, unit
    return 1.0, "s"
