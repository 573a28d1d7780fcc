"""The option ``correction`` that all parts which predict run times have."""

from __future__ import annotations

from typing import Any, get_args

from wattqueue.errors import PolicyError
from wattqueue.parts.contracts import Correction


def checked_correction(value: Any) -> Correction:
    """Return a correction. Raises: PolicyError for an unknown one."""
    if value not in get_args(Correction):
        raise PolicyError(f"is {value!r}", where="correction", hint=f"use one of {', '.join(get_args(Correction))}")
    found: Correction = value
    return found
