"""Samples by hand whose runs all did the same work, so that they may be compared."""

from __future__ import annotations

from collections.abc import Mapping

from wattqueue.model.comparability import WorkDone
from wattqueue.model.jobs import Floats
from wattqueue_studies.frame.samples import Samples

WHOLE = WorkDone(10, 0, "", "all")
"""A run of ten jobs, all of which ran."""


def equal_work(values: Mapping[tuple[str, str, str], Floats]) -> Samples:
    """Samples of runs without a lost job."""
    return Samples(values, {(s, p): (WHOLE,) * len(v) for (s, p, _), v in values.items()})
