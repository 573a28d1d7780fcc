"""What a part offers, by the names of its methods and attributes: the one place that looks.

Parts are structural (``parts/contracts.py``): a class is a part because it has a method of that name, and much of an
interface is optional. Everything that asks whether a part has something asks here, so that a name is looked up in one
way, and a test holds that nothing else does. What a policy's parts offer as a whole is ``policy/capabilities.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

AXES = ("estimator", "runtime", "order", "frequency", "placement", "backfill", "ledger", "controls")
CORRECTIONS = "corrections"
"""Kind of the parts that correct an estimator: no choice of their own, they stand behind it in a row."""
METHODS = {
    "estimator": ("predict", "predict_rows", "learn", "remember", "predict_quantiles"),
    "runtime": ("seconds", "seconds_of", "learn_runs", "remember_runs"),
    "order": ("entries", "rerank"),
    "frequency": ("window", "in_targets", "without_options"),
    "placement": ("rank",),
    "backfill": ("schedule",),
    "ledger": ("margin_w",),
    "controls": ("act", "begin", "refuses", "compiled_step"),
    CORRECTIONS: ("apply", "invert", "loop_terms"),
}
"""Methods of each axis; the first makes a class a part of it, a correction has the first two."""
PASS_ATTRIBUTES = ("code", "queue_depth")
"""What makes a class a backfill without a method: these name a compiled pass."""


def method_of(part: object, name: str) -> Callable[..., Any] | None:
    """Return a method of a part, or of its class; None where it has none."""
    found = getattr(part, name, None)
    return found if callable(found) else None


def stated(part: object, name: str, default: Any) -> Any:
    """Return what a part states in an attribute; ``default`` where it states nothing."""
    return getattr(part, name, default)


def axes_of(found: type[Any]) -> list[str]:
    """Return the axes whose interface a class implements; ``corrections`` for one that corrects an estimator.

    A backfill needs no method: ``queue_depth`` and ``code`` name a compiled pass. An estimator may have methods that
    are called as those of a correction, and is none.
    """
    axes = [axis for axis in AXES if method_of(found, METHODS[axis][0]) is not None]
    if all(hasattr(found, name) for name in PASS_ATTRIBUTES) and "backfill" not in axes:
        axes.append("backfill")
    if not axes and all(method_of(found, name) is not None for name in METHODS[CORRECTIONS][:2]):
        return [CORRECTIONS]
    return axes
