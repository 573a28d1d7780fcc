"""Rows of a trace that no schedule can use: counted, listed with line and reason, left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats._aside import aside
from wattqueue.formats._csv import records
from wattqueue.model.jobs import Labels


@dataclass(frozen=True, slots=True, eq=False)
class Unusable:
    """Rows that were left out, in order of their lines. Shapes (k,); lines count from 1."""

    line: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    job_id: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int64))
    reason: Labels = field(default_factory=lambda: Labels.missing(0))

    def __len__(self) -> int:
        return len(self.line)

    def rows(self) -> Iterable[tuple[int, str, str]]:
        """(line, job id, reason) of each."""
        return zip(self.line.tolist(), map(str, self.job_id.tolist()), self.reason.values().tolist(), strict=True)


def write_unusable(path: Path, unusable: Unusable) -> None:
    """``unusable.csv``: line, job_id, reason. Raises: OutputError."""
    with aside(path) as temporary:
        put_unusable(temporary, unusable)


def put_unusable(path: Path, unusable: Unusable) -> None:
    """As ``write_unusable``, straight to the path: for a folder that is written aside as a whole."""
    import csv

    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("line", "job_id", "reason"))
        writer.writerows(unusable.rows())


def read_unusable(path: Path) -> Unusable:
    """Read ``unusable.csv`` back. Raises: InputError naming file and line."""
    rows = list(records(path, 0))[1:]
    try:
        table = [(int(line), job_id, reason) for _, (line, job_id, reason) in rows]
    except ValueError as error:
        raise InputError("is no list of unusable rows", where=path, mend="run it again") from error
    return Unusable(
        np.array([row[0] for row in table], np.int64),
        np.array([row[1] for row in table], object),
        Labels.of([row[2] for row in table]),
    )
