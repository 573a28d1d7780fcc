"""Limits of the options of parts, by their names (``bounds`` has those of every other number that enters WattQueue)."""

from __future__ import annotations

from wattqueue.model.bounds import CAP_W, COUNT, DURATION_S, FREQUENCY_HZ, Bound

SEED = Bound(0, 2**32 - 1, "", "numpy refuses negative seeds, scikit-learn those beyond 32 bits")
"""Seed of a random generator."""

MODELS = Bound(1, 10_000, "", "each tree, neighbour or fold takes memory and time for every job that is predicted")
"""Trees, neighbours, folds: how many models a part trains."""

OPTION_S = Bound(0, 2**32, "s", DURATION_S.reason)
"""An option of a part in seconds; what is called again and again has ``PERIOD_S`` besides."""

OPTION_HZ = Bound(0, FREQUENCY_HZ.high, "Hz", FREQUENCY_HZ.reason)
"""An option of a part in hertz; 0 for none."""

OPTION_DAYS = Bound(0, 36_525, "days", "a hundred years")
"""An option of a part in days."""

OPTION_WHOLE = Bound(-COUNT.high, COUNT.high, "", COUNT.reason)
"""Another whole number that a part takes."""

OPTION = Bound(-1e15, 1e15, "", "no weight, share or factor is larger")
"""Another number that a part takes."""

_BY_NAME = {"seed": SEED, "random_state": SEED, "trees": MODELS, "neighbours": MODELS, "folds": MODELS}
_BY_UNIT = {"s": OPTION_S, "hz": OPTION_HZ, "w": CAP_W, "days": OPTION_DAYS}


def of_option(name: str, *, whole: bool) -> Bound:
    """Return the limit of an option of a part by its name, which carries its unit (``period_s``)."""
    unit = name.rpartition("_")[2] if "_" in name else ""
    return _BY_NAME.get(name) or _BY_UNIT.get(unit) or (OPTION_WHOLE if whole else OPTION)
