"""Spans of time as people write them: ``30min``, ``24h``, ``2d``.

Options such as ``--default-walltime`` take them. A bare number is seconds, as everywhere inside WattQueue. Compound
forms (``1h30min``) are not accepted: they would be one more thing to explain, and ``90min`` says the same.

Examples: ``24h`` = 86,400 s, ``1.5h`` = 5,400 s, ``90min`` = 5,400 s, ``2d`` = 172,800 s, ``3600`` = 3,600 s.
"""

from __future__ import annotations

from wattqueue.errors import InputError
from wattqueue.model.bounds import DURATION_S


def duration_s(text: str | None, where: str) -> float | None:
    """Return the seconds of ``30min``, ``24h``, ``2d`` or a bare number; None for None.

    ``where`` is the option as errors name it. ``min`` is tried before ``s`` and ``h`` since the endings overlap
    only in what follows the number; the unit is not sensitive to case.

    Raises: InputError for anything else, and for spans outside ``bounds.DURATION_S``.
    """
    if text is None:
        return None
    # Without a suffix ``unit.get`` gives 1: the number is seconds.
    unit = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
    stripped = text.strip().lower()
    suffix = next((u for u in ("min", "s", "h", "d") if stripped.endswith(u)), "")
    try:
        value = float(stripped.removesuffix(suffix)) * unit.get(suffix, 1.0)
    except ValueError:
        value = -1.0  # below every limit, so that text and figures out of range share one error
    if not DURATION_S.low <= value <= DURATION_S.high:
        raise InputError(
            f"{text!r} is not a time of {DURATION_S.text}", where=where, hint="for example 24h, 90min or 3600"
        )
    return value
