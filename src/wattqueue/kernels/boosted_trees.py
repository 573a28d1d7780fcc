"""Evaluate an ensemble of regression trees on single rows: what scikit-learn does in a millisecond, in microseconds.

Jobs arrive one by one, so that a model is asked some million times for one row; a call of ``predict`` costs more than
all the rest of a run. The trees stand one behind the other in flat arrays.
"""

from __future__ import annotations

from typing import NamedTuple

from wattqueue.kernels._numba import as_int64, entry, kernel, referenced
from wattqueue.kernels.state import Array


@referenced
class BoostedTrees(NamedTuple):
    """A trained ensemble: ``base`` (1,) the constant; ``root`` (trees,) int32 first node of each tree.

    ``feature`` (N,) int32 feature that a node splits by, -1 for a leaf; ``threshold`` (N,) float64 values up to it go
    left; ``nan_left`` (N,) int8, 1 where unknown values do; ``left``, ``right`` (N,) int32 nodes; ``value`` (N,) of
    leaves.
    """

    base: Array
    root: Array
    feature: Array
    threshold: Array
    nan_left: Array
    left: Array
    right: Array
    value: Array


@kernel
def leaf_value(trees: BoostedTrees, root: int, table: Array, row: int) -> float:
    """Return what one tree answers for a row of the table."""
    node = as_int64(root)
    while trees.feature[node] >= 0:
        x = table[row, trees.feature[node]]
        left = trees.nan_left[node] != 0 if x != x else x <= trees.threshold[node]  # noqa: PLR0124 - NaN
        node = as_int64(trees.left[node] if left else trees.right[node])
    return float(trees.value[node])


@entry
def boosted_rows(trees: BoostedTrees, table: Array, out: Array) -> None:
    """Write what the ensemble answers for each row of a table to ``out``. Shapes (k, features), (k,)."""
    for i in range(len(out)):
        total = trees.base[0]
        for root in trees.root:
            total += leaf_value(trees, as_int64(root), table, as_int64(i))
        out[i] = total
