"""Rows of a trace that no schedule can use: found by limits, counted, listed with line and reason, left out.

A trace of a real system always has some: jobs that were cancelled before they started, counters that were lost.
They are never dropped without a trace of their own. The list goes to ``unusable.csv`` of a run folder, or to
``NAME.unusable.csv`` beside an imported table.

Readers build an ``Unusable`` beside the job table and return both in a ``Workload``; run folders carry it along, so
that the number of rows that a result leaves out can be read beside the result.

Which rows of an imported trace a schedule can use: the limits of ``model.bounds``, applied in one place.

Readers of foreign traces leave out rows that cannot be used, with a reason, and go on; our own table refuses the
first one, since it was written by a program (``table``). Both use the same limits. Figures that a job can do without
(start, walltime, watts) become unknown, and the job stays usable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.bounds import DURATION_S, TIME_S, UNIT_W, UNITS, Bound
from wattqueue.model.jobs import Floats, Labels


@dataclass(frozen=True, slots=True, eq=False)
class Unusable:
    """Rows that were left out, in order of their lines. Shapes (k,).

    Fields: ``line`` of the file, counted from 1 (Parquet: number of the row; JSON: number in the list); ``job_id``
    as written, empty where there is none; ``reason`` as a sentence, stored once per kind.
    """

    line: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    job_id: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int64))
    reason: Labels = field(default_factory=lambda: Labels.missing(0))

    def __len__(self) -> int:
        return len(self.line)

    def rows(self) -> Iterable[tuple[int, str, str]]:
        """Return (line, job id, reason) of each.

        In order of the lines, as Python values ready to be written.
        """
        return zip(self.line.tolist(), map(str, self.job_id.tolist()), self.reason.values().tolist(), strict=True)


def write_unusable(path: Path, unusable: Unusable) -> None:
    """Write ``unusable.csv``: line, job_id, reason. Raises: OutputError.

    Text is UTF-8, written atomically. No rows give a file with the header only.
    """
    from wattqueue.formats.atomic_write import atomic_write

    with atomic_write(path) as temporary:
        put_unusable(temporary, unusable)


def put_unusable(path: Path, unusable: Unusable) -> None:
    """Write the same straight to the path: for a folder that is written atomically as a whole.

    A failure is an OSError, which the writer of the folder turns into OutputError. Line ends are always a line feed,
    so that the same rows give identical files on every system.
    """
    import csv

    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("line", "job_id", "reason"))
        writer.writerows(unusable.rows())


def read_unusable(path: Path) -> Unusable:
    """Return the rows of ``unusable.csv``. Raises: InputError naming file and line.

    Ids come back as text, whatever they were: a list may mix numbers with ids such as ``12_3``.
    """
    from wattqueue.formats.csv_records import records

    # The first record is the header.
    rows = list(records(path, 0))[1:]
    try:
        table = [(int(line), job_id, reason) for _, (line, job_id, reason) in rows]
        lines = np.array([row[0] for row in table], np.int64)
    except (ValueError, OverflowError) as error:
        raise InputError("is not a list of unusable rows", where=path, hint="run it again") from error
    return Unusable(
        lines,
        np.array([row[1] for row in table], object),
        Labels.of([row[2] for row in table]),
    )


Mask = NDArray[np.bool_]
Rules = tuple[tuple[Mask, str], ...]


def size_and_time_rules(submit_s: Floats, runtime_s: Floats, nodes: Floats) -> Rules:
    """Return (which rows break it, reason) of each limit; NaN breaks none, its reader has a reason of its own."""
    return (
        (_outside(submit_s, TIME_S), f"submit time outside {TIME_S.text}"),
        (_outside(runtime_s, DURATION_S), f"run time outside {DURATION_S.text}"),
        (_outside(nodes, UNITS), f"size outside {UNITS.text} units"),
    )


def known(values: Floats, bound: Bound) -> Floats:
    """Return the values inside a limit, NaN for the others. Shape as ``values``.

    For figures that a job can do without; for those that it needs see ``size_and_time_rules``.
    """
    return np.where(bound.holds(values), values, np.nan)


def plausible_watts(mean_w: Floats, max_w: Floats) -> tuple[Floats, Floats, list[str]]:
    """Return mean and maximum watts of one unit, and remarks on what was changed. Shapes (n,).

    Watts outside the limit become unknown. A maximum below the mean takes the mean: it contradicts the energy of the
    job, and a cap that relied on it would be exceeded on average.
    """
    wild = _outside(mean_w, UNIT_W) | _outside(max_w, UNIT_W)
    mean_w, max_w = known(mean_w, UNIT_W), known(max_w, UNIT_W)
    with np.errstate(invalid="ignore"):
        low = max_w < mean_w
    notes = []
    if wild.any():
        notes.append(f"{int(wild.sum()):,} jobs have watts outside {UNIT_W.text} per unit: they count as unknown")
    if low.any():
        notes.append(f"{int(low.sum()):,} jobs have a maximum power below their mean power: the mean is taken for both")
    return mean_w, np.where(low, mean_w, max_w), notes


def _outside(values: Floats, bound: Bound) -> Mask:
    """Return whether values are known (not NaN) and outside a limit; infinity is outside. Shape as ``values``."""
    return ~np.isnan(values) & ~bound.holds(values)
