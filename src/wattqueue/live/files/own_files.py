"""Files that WattQueue itself writes and reads again: another version, a hand or a full disk may have changed them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wattqueue.errors import InputError


@contextmanager
def as_written(path: Path, what: str, hint: str | None = None) -> Iterator[None]:
    """Raise InputError, "is no ...", for values in the block that are missing or of another kind than were written."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, struct.error) as error:
        raise InputError(f"is no {what}", where=path, hint=hint) from error
