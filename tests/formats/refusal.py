"""Assert that a reader or writer refuses an input: the kind of error, the place it names, and that it has a hint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wattqueue.errors import InputError, WattQueueError


@contextmanager
def refused(
    where: str | Path | None, *facts: str, kind: type[WattQueueError] = InputError, hint: bool = True
) -> Iterator[None]:
    """Expect an error of ``kind`` whose ``where`` is the one given, and which has a hint.

    ``facts`` are names and figures of the input that the message must show; the wording around them is free.
    """
    with pytest.raises(kind) as caught:
        yield
    error = caught.value
    assert (None if error.where is None else str(error.where)) == (None if where is None else str(where))
    assert bool(error.hint) or not hint
    assert "\n" not in str(error)
    for fact in facts:
        assert fact in str(error)
