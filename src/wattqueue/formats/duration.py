"""Spans of time as people write them: ``30min``, ``24h``, ``2d``."""

from __future__ import annotations

from wattqueue.errors import InputError


def duration_s(text: str | None, where: str) -> float | None:
    """``30min``, ``24h``, ``2d`` or a bare number of seconds. Raises: InputError."""
    if text is None:
        return None
    unit = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
    stripped = text.strip().lower()
    suffix = next((u for u in ("min", "s", "h", "d") if stripped.endswith(u)), "")
    try:
        value = float(stripped.removesuffix(suffix)) * unit.get(suffix, 1.0)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e12:
        raise InputError(f"{where} {text!r} is no time above 0", mend="for example 24h, 90min or 3600")
    return value
