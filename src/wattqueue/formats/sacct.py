"""Slurm's accounting, as ``sacct --parsable2`` (or ``--parsable``) writes it, with any ``--format``.

The header is found by itself, wherever it stands and however often. Files of any size are read in
blocks of 8 MB; beyond that, memory grows with the jobs alone.

Reference: sacct(1), Slurm 17 to 26.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats._runs import job_ids
from wattqueue.formats._sacct_columns import Clock
from wattqueue.formats._sacct_energy import HIGH_W, LOW_W, Plausible
from wattqueue.formats._sacct_energy import SOURCES as ENERGY_SOURCES
from wattqueue.formats._sacct_fields import ASK_FOR, SACCT_LINE, Header, header_of, sacct_command
from wattqueue.formats._sacct_lines import Lines, pieces
from wattqueue.formats._sacct_runs import Reading, check_columns, take_rows
from wattqueue.formats._sacct_steps import column
from wattqueue.formats._slurm_jobs import workload_of
from wattqueue.formats.workload import Workload
from wattqueue.model.jobs import Floats

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "ASK_FOR",
    "ENERGY_SOURCES",
    "SACCT_LINE",
    "JobEnergies",
    "read_energies",
    "read_sacct",
    "reading_of",
    "sacct_command",
]

MOST_CARRIED = 2_000_000
"""Steps of one job that are held back until the job is whole; a dump of steps alone is cut here."""


def reading_of(
    time_zone: str | None = None, node_watts: tuple[float, float] | None = None, *, queued: bool = False
) -> Reading:
    """How to read a dump. ``node_watts``: idle and maximum watts of a node, which bound what its counters may say.

    Raises: InputError for a zone that is none, or watts out of order.
    """
    low, high = LOW_W, HIGH_W
    if node_watts is not None:
        if not 0 <= node_watts[0] <= node_watts[1] < np.inf or node_watts[1] <= 0:
            raise InputError(
                f"node watts {node_watts[0]:g}:{node_watts[1]:g}", mend="give IDLE:MAX with 0 <= IDLE <= MAX"
            )
        # Meters err, and firmware counts fans or does not: a fifth of leeway either way.
        low, high = 0.8 * node_watts[0], 1.2 * node_watts[1]
    return Reading(Clock(time_zone), Plausible(low, high), queued=queued)


def read_sacct(
    path: Path,
    *,
    time_zone: str | None = None,
    columns: str | None = None,
    node_watts: tuple[float, float] | None = None,
    default_walltime_s: float | None = None,
    queued: bool = False,
) -> Workload:
    """Read an sacct dump: jobs in order of submission, watts of one node where energy was counted.

    ``time_zone`` says what times without a zone mean (default UTC); ``columns`` names the columns of a
    dump without a header; ``queued`` takes jobs that have not ended, with their limit as run time.
    ``mean_power_w`` is a job's energy over the node-seconds that its counter covered.

    Raises: InputError naming file and line, with the sacct command that gives what is missing.
    """
    reading, lines = reading_of(time_zone, node_watts, queued=queued), Lines()
    for frame in _whole_jobs(path, lines, header_of(columns) if columns else None):
        take_rows(frame, reading)
    workload = workload_of(str(path), reading, lines.rejected, "sacct", default_walltime_s)
    notes = list(workload.notes)
    if reading.gathered.counts["steps"]:
        notes.insert(0, f"{reading.gathered.counts['steps']:,} rows are steps, folded into their jobs")
    if lines.open_end:
        notes.append("the last line has no line end: if the dump was cut off, its last value may be, too")
    return Workload(workload.jobs, workload.unusable, "sacct", lines.rows + len(lines.rejected), tuple(notes))


class JobEnergies(NamedTuple):
    """What an sacct dump says of energy alone, one row a job in order of the dump. Shapes (n,).

    ``energy_j`` covers ``covered_node_s`` node-seconds (NaN: none counted); ``source`` indexes
    ``ENERGY_SOURCES``; ``failed_counters`` were left out as implausible; ``nodes`` is 0 where unknown.
    """

    job_id: NDArray[Any]
    nodes: NDArray[np.int32]
    runtime_s: Floats
    energy_j: Floats
    covered_node_s: Floats
    source: NDArray[np.uint8]
    failed_counters: NDArray[np.int32]


def read_energies(path: Path, *, node_watts: tuple[float, float] | None = None) -> JobEnergies:
    """Only the energies of a dump: it needs JobID, ElapsedRaw, NNodes and ConsumedEnergyRaw, and no times of day.

    Raises: InputError as read_sacct does.
    """
    reading, lines = reading_of(None, node_watts), Lines()
    for frame in _whole_jobs(path, lines, None, timeless=True):
        take_rows(frame, reading)
    if not reading.gathered.blocks:
        raise InputError("0 jobs: no row below the header", where=path, mend="is the dump complete?")
    runs = reading.gathered.joined()
    ids = job_ids(runs.job, runs.task)
    return JobEnergies(ids, runs.nodes, runs.elapsed_s, runs.energy_j, runs.covered_node_s, runs.source, runs.glitches)


def _whole_jobs(path: Path, lines: Lines, given: Header | None, *, timeless: bool = False) -> Iterator[pl.DataFrame]:
    """The rows of a dump in pieces that never part a job from the steps below it."""
    import polars as pl

    waiting: pl.DataFrame | None = None
    header: Header | None = None
    for piece in pieces(path, lines, given):
        if piece.header != header:
            header = piece.header
            if not timeless:
                check_columns(header.names, str(path))
            cut = len(waiting) if waiting is not None else 0
        else:
            cut = _last_job(waiting) if waiting is not None else 0
        rest = piece.frame
        if waiting is not None:
            if cut:
                yield waiting[:cut]
            if cut < len(waiting):
                rest = pl.concat([waiting[cut:], rest])
        waiting = rest
    if waiting is not None:
        yield waiting


def _last_job(frame: pl.DataFrame) -> int:
    """Where the last job of a frame begins, whose steps may go on in the next one."""
    steps = column(frame, "jobid", "jobidraw").str.contains(".", literal=True).fill_null(value=False).to_numpy()
    last = len(frame) - 1 - int(np.argmin(steps[::-1]))
    return len(frame) if steps.all() or len(frame) - last > MOST_CARRIED else last
