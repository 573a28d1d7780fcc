"""Find curves that are equal, so that a figure says so instead of showing one of them on top of the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SAME = 1e-9
"""Relative difference up to which values count as equal: sums in another order differ by less."""


def equal_groups(labels: Sequence[str], curves: Sequence[Sequence[NDArray[np.float64]]]) -> list[list[str]]:
    """Return the labels of curves that are equal throughout, group by group; curves without an equal are left out.

    Each element of ``curves`` holds the columns of one label. NaN equals NaN: a gap at the same place is no
    difference. Cost O(groups x curves); figures have at most a few dozen.
    """
    groups: list[list[int]] = []
    for k, columns in enumerate(curves):
        group = next((g for g in groups if _same(curves[g[0]], columns)), None)
        if group is None:
            groups.append([k])
        else:
            group.append(k)
    return [[labels[k] for k in group] for group in groups if len(group) > 1]


def _same(a: Sequence[NDArray[np.float64]], b: Sequence[NDArray[np.float64]]) -> bool:
    """Return whether two sets of columns are equal up to rounding."""
    return len(a) == len(b) and all(
        x.shape == y.shape and bool(np.allclose(x, y, rtol=SAME, atol=0.0, equal_nan=True))
        for x, y in zip(a, b, strict=True)
    )


def equal_sentence(labels: Sequence[str], curves: Sequence[Sequence[NDArray[np.float64]]]) -> str:
    """Return which curves coincide as a sentence, empty where none do.

    ``curves`` holds the columns of each label. Labels are joined by ``=``, since they may contain commas themselves.
    """
    groups = equal_groups(labels, curves)
    if not groups:
        return ""
    if len(groups[0]) == len(labels):
        return "Both curves are equal." if len(labels) == 2 else f"All {len(labels)} curves are equal."
    named = "; ".join(" = ".join(group) for group in groups)
    return f"Equal curves, drawn on top of each other: {named}."
