"""The job table: one row a job, one array a column, validated once."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattqueue.errors import InputError
from wattqueue.model.profiles import Profiles

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A column of names stored once: ``names[codes[i]]``; code -1 means missing.

    Shapes: ``codes`` (n,) int32.
    """

    codes: Ints
    names: tuple[str, ...] = ()

    @classmethod
    def missing(cls, n: int) -> Labels:
        """A column of n missing names."""
        return cls(np.full(n, -1, np.int32))

    @classmethod
    def of(cls, values: ArrayLike) -> Labels:
        """Code the strings of ``values``; empty strings and None are missing. Names are sorted."""
        text = np.array(["" if v is None else str(v) for v in np.asarray(values, object)], np.str_)
        names, codes = np.unique(text, return_inverse=True)
        if len(names) and names[0] == "":
            return cls((codes - 1).astype(np.int32), tuple(str(v) for v in names[1:]))
        return cls(codes.astype(np.int32), tuple(str(v) for v in names))

    def values(self) -> NDArray[Any]:
        """The names as an object array; missing ones are empty strings. Shape (n,)."""
        table = np.array([*self.names, ""], object)
        return table[self.codes]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """A workload of n jobs in trace order. Times in seconds on the trace's own clock.

    ``nodes`` counts units of the machine (nodes, unless the machine says socket or core).
    ``mean_power_w`` and ``max_power_w`` are watts of **one unit**, idle share included, at the
    reference frequency; NaN (or no column) means unknown.

    Invariants: equal lengths; submit, walltime and runtime finite; nodes >= 1; walltime and
    runtime > 0; a missing walltime has been replaced before the table is built.

    Raises: InputError naming column and row.
    """

    job_id: NDArray[Any]
    submit_s: Floats
    nodes: Ints
    walltime_s: Floats
    runtime_s: Floats
    user: Labels
    app: Labels
    partition: Labels
    mean_power_w: Floats | None = None
    max_power_w: Floats | None = None
    start_s: Floats | None = None
    origin: str = "measured"
    """Where the rows come from: ``measured``, or ``generated`` for synthetic workloads."""
    profiles: Profiles | None = None
    """Watts of one unit over the run, sample by sample, where known; ``mean_power_w`` and ``max_power_w`` agree."""
    extra: dict[str, NDArray[Any]] = field(default_factory=dict)
    """Further columns that a format brought and that the engine does not read."""

    @classmethod
    def build(cls, submit_s: ArrayLike, nodes: ArrayLike, runtime_s: ArrayLike, **more: Any) -> Self:
        """A table from what is at hand: ids count from 1, a missing walltime is the runtime.

        ``more`` takes every other field; user, app and partition also as plain sequences.
        """
        submit = np.ascontiguousarray(submit_s, np.float64)
        runtime = np.ascontiguousarray(runtime_s, np.float64)
        walltime = np.array(more.pop("walltime_s", runtime), np.float64)
        walltime = np.where(np.isnan(walltime), runtime, walltime)
        for name in ("user", "app", "partition"):
            value = more.get(name)
            if value is None:
                more[name] = Labels.missing(len(submit))
            elif not isinstance(value, Labels):
                more[name] = Labels.of(value)
        for name in ("mean_power_w", "max_power_w", "start_s"):
            if more.get(name) is not None:
                more[name] = np.ascontiguousarray(more[name], np.float64)
        ids = np.asarray(more.pop("job_id", np.arange(1, len(submit) + 1, dtype=np.int64)))
        size = np.ascontiguousarray(nodes, np.int32)
        return cls(ids, submit, size, walltime, runtime, **more)

    def __post_init__(self) -> None:
        n = len(self.submit_s)
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None and f.name not in ("origin", "extra") and len(value) != n:
                raise InputError(f"column {f.name} has {len(value)} rows, submit_s has {n}")
        _require(self.submit_s, np.isfinite(self.submit_s), "submit_s", "a finite time")
        _require(self.nodes, self.nodes >= 1, "nodes", "at least 1")
        for name in ("walltime_s", "runtime_s"):
            column = getattr(self, name)
            _require(column, np.isfinite(column) & (column > 0), name, "finite and above 0")
        for name in ("mean_power_w", "max_power_w"):
            column = getattr(self, name)
            if column is not None:
                good = np.isnan(column) | (np.isfinite(column) & (column >= 0))
                _require(column, good, name, "0 or more, or missing")

    def __len__(self) -> int:
        return len(self.submit_s)

    def take(self, index: NDArray[Any] | slice) -> Jobs:
        """The rows of ``index`` (a mask, row numbers, or a slice, which copies nothing), in that order."""
        parts: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Labels):
                parts[f.name] = Labels(value.codes[index], value.names)
            elif isinstance(value, np.ndarray):
                parts[f.name] = value[index]
            elif isinstance(value, Profiles):
                parts[f.name] = value.take(index)
        parts["extra"] = {name: column[index] for name, column in self.extra.items()}
        return replace(self, **parts)

    def peak_power_w(self) -> Floats | None:
        """``max_power_w`` with gaps filled from ``mean_power_w`` (SI watts of a unit). Shape (n,)."""
        if self.max_power_w is None:
            return self.mean_power_w
        if self.mean_power_w is None:
            return self.max_power_w
        return np.where(np.isnan(self.max_power_w), self.mean_power_w, self.max_power_w)


def _require(column: NDArray[Any], good: NDArray[np.bool_], name: str, rule: str) -> None:
    if not good.all():
        row = int(np.argmin(good))
        raise InputError(
            f"column {name}, row {row + 1}: {column[row]!s} is not {rule}",
            mend=f"{int((~good).sum())} rows break this rule",
        )
