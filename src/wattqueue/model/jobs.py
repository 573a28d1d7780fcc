"""The job table: one row per job, one array per column, validated once.

Rows stay in trace order: the position of a row breaks ties between jobs of equal priority and submit time (rule 5 of
docs/semantics.md). Readers (``formats``) leave out rows that no schedule can use before they build the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattqueue.errors import InputError
from wattqueue.model import bounds
from wattqueue.model.consent import Consent
from wattqueue.model.profiles import PowerProfiles

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

NODES_ASKED = "nodes_asked"
"""Column of ``Jobs.extra``: nodes of a job whose units were counted from its GPUs (``parts.gpus``)."""


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A column of names, each stored once: row i has ``names[codes[i]]``; code -1 means missing.

    A trace of 10 million jobs has a few thousand users: codes keep the column small and make groups cheap.
    """

    codes: Ints
    """Number of each row's name, -1 for none. Shape (n,)."""
    names: tuple[str, ...] = ()
    """The distinct names; those from ``of`` are sorted."""

    @classmethod
    def missing(cls, n: int) -> Labels:
        """Return a column of n missing names."""
        return cls(np.full(n, -1, np.int32))

    @classmethod
    def of(cls, values: ArrayLike) -> Labels:
        """Return the coded strings of ``values``; empty strings and None are missing. Names are sorted."""
        text = np.array(["" if v is None else str(v) for v in np.asarray(values, object)], np.str_)
        names, codes = np.unique(text, return_inverse=True)
        if len(names) and names[0] == "":
            return cls((codes - 1).astype(np.int32), tuple(str(v) for v in names[1:]))
        return cls(codes.astype(np.int32), tuple(str(v) for v in names))

    def values(self) -> NDArray[Any]:
        """Return the names as an object array; missing ones are empty strings. Shape (n,)."""
        # Code -1 picks the last element: the empty string.
        table = np.array([*self.names, ""], object)
        return table[self.codes]

    def take(self, index: NDArray[Any] | slice) -> Labels:
        """Return the rows of ``index``, with all names."""
        from wattqueue.model.codec import take

        return take(self, index)

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """A workload of n jobs in trace order. Times in seconds on the trace's own clock.

    Invariants: equal lengths; every figure inside its limits (``model.bounds``); a missing walltime has been replaced
    before the table is built; watts and recorded starts may be NaN (unknown).

    Raises: InputError with column and row in ``where``. Shapes: all (n,).

    Example: ``Jobs.build(submit_s=[0, 5], nodes=[4, 1], runtime_s=[60, 30], user=["ada", "bob"])``.
    """

    job_id: NDArray[Any]
    """Names of the jobs as the input gives them: integers or text; not used as an index."""
    submit_s: Floats
    """Submission, as written in the trace (rule 1): no shift to 0."""
    nodes: Ints
    """Units that the job asks for: nodes, unless the machine counts sockets or cores."""
    walltime_s: Floats
    """Time limit, in seconds of work at reference speed."""
    runtime_s: Floats
    """Work of the job in seconds at reference speed; what exceeds the walltime is not run (rule 3)."""
    user: Labels
    app: Labels
    """Application or job name, as it is known at submission."""
    partition: Labels
    """Partition that the user named; ignored where the machine has none of that name."""
    mean_power_w: Floats | None = None
    """Mean watts of **one unit**, idle share included, at the reference frequency; NaN unknown."""
    max_power_w: Floats | None = None
    """Highest watts of one unit, likewise."""
    start_s: Floats | None = None
    """Recorded start, where the trace has one; simulations do not read it."""
    origin: str = "measured"
    """Where the rows come from: ``measured``, or ``generated`` for synthetic workloads."""
    profiles: PowerProfiles | None = None
    """Watts of one unit over the run, sample by sample, where known; ``mean_power_w`` agrees."""
    consent: Consent | None = None
    """What may be done with jobs during a load target; None where no job states anything."""
    extra: dict[str, NDArray[Any]] = field(default_factory=dict)
    """Further columns that a format brought and that the engine does not read."""

    @classmethod
    def build(cls, submit_s: ArrayLike, nodes: ArrayLike, runtime_s: ArrayLike, **more: Any) -> Self:
        """Return a table from plain sequences: ids count from 1, a missing walltime (NaN) becomes the run time.

        ``more`` takes every other field; user, app and partition as sequences of names.
        Raises: InputError as the class does.
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
        # Checked before it becomes int32, where 2**32 + 1 would wrap to 1.
        bounds.UNITS.require_column(np.asarray(nodes), "nodes")
        size = np.ascontiguousarray(nodes, np.int32)
        return cls(ids, submit, size, walltime, runtime, **more)

    def __post_init__(self) -> None:
        n = len(self.submit_s)
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None and f.name not in ("origin", "extra") and len(value) != n:
                raise InputError(f"{len(value)} rows, submit_s has {n}", where=f"column {f.name}")
        bounds.TIME_S.require_column(self.submit_s, "submit_s")
        bounds.UNITS.require_column(self.nodes, "nodes")
        bounds.DURATION_S.require_column(self.walltime_s, "walltime_s")
        bounds.DURATION_S.require_column(self.runtime_s, "runtime_s")
        for name, bound in (
            ("mean_power_w", bounds.UNIT_W),
            ("max_power_w", bounds.UNIT_W),
            ("start_s", bounds.TIME_S),
        ):
            column = getattr(self, name)
            if column is not None:
                bound.require_column(column, name, missing=True)

    def __len__(self) -> int:
        return len(self.submit_s)

    def take(self, index: NDArray[Any] | slice) -> Jobs:
        """Return the rows of ``index`` (a mask, row numbers, or a slice, which copies nothing), in that order."""
        from wattqueue.model.codec import take

        return take(self, index)

    def peak_power_w(self) -> Floats | None:
        """Return ``max_power_w`` with gaps filled from ``mean_power_w``; None where neither is known. Shape (n,)."""
        if self.max_power_w is None:
            return self.mean_power_w
        if self.mean_power_w is None:
            return self.max_power_w
        return np.where(np.isnan(self.max_power_w), self.mean_power_w, self.max_power_w)
