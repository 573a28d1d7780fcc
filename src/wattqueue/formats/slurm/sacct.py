"""Slurm's accounting, as ``sacct --parsable2`` (or ``--parsable``) writes it, with any ``--format``.

The header is found wherever it stands and however often it repeats. Files of any size are read in blocks of 8 MB;
beyond that, memory grows with the jobs alone. The way of a row:

    line_blocks -> pieces (lines) -> whole jobs -> add_rows (rows) -> workload_of (jobs)

Reference: sacct(1), Slurm 17 to 26.

A dump is never refused for single rows: text that cannot be read is missing, and rows that are no jobs are listed
with line and reason (``Workload.unusable``). Refused are files without a header, dumps without a submission, run time
or size, and dumps without any usable job. What a user should know about the figures is in ``Workload.notes``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.slurm.columns import Clock
from wattqueue.formats.slurm.energy import HIGH_W, LOW_W, Plausible
from wattqueue.formats.slurm.energy import SOURCES as ENERGY_SOURCES
from wattqueue.formats.slurm.fields import ASK_FOR, SACCT_LINE, Header, header_of, sacct_command
from wattqueue.formats.slurm.jobs import workload_of
from wattqueue.formats.slurm.lines import Lines, pieces
from wattqueue.formats.slurm.records import job_ids
from wattqueue.formats.slurm.rows import ReadContext, add_rows, check_columns
from wattqueue.formats.slurm.steps import column
from wattqueue.formats.workload import Workload
from wattqueue.formats.workload_format import DEFAULTS, ReadOptions
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


def reading_of(options: ReadOptions) -> ReadContext:
    """Return how to read a dump, for one file, since the context collects the rows.

    Raises: InputError for a zone that is none, or watts out of order.
    """
    low, high = LOW_W, HIGH_W
    node_watts = options.node_watts
    if node_watts is not None:
        if not 0 <= node_watts[0] <= node_watts[1] < np.inf or node_watts[1] <= 0:
            raise InputError(
                f"node watts {node_watts[0]:g}:{node_watts[1]:g}", hint="give IDLE:MAX with 0 <= IDLE <= MAX"
            )
        # Meters err, and firmware counts fans or does not: a fifth of leeway either way.
        low, high = 0.8 * node_watts[0], 1.2 * node_watts[1]
    return ReadContext(Clock(options.time_zone), Plausible(low, high), queued=options.queued)


def read_sacct(path: Path, options: ReadOptions = DEFAULTS) -> Workload:
    """Return the jobs of an sacct dump in order of submission, with watts of one node where energy was counted.

    ``mean_power_w`` is a job's energy over the node-seconds that its counter covered. Memory grows with the number of
    jobs, not with the size of the dump.

    Raises: InputError naming file and line, with the sacct command that gives what is missing.
    """
    reading, lines = reading_of(options), Lines()
    for frame in _whole_jobs(path, lines, header_of(options.columns) if options.columns else None):
        add_rows(frame, reading)
    workload = workload_of(str(path), reading, lines.unusable, "sacct", options.default_walltime_s)
    notes = list(workload.notes)
    if reading.collected.counts["steps"]:
        # First of all remarks: it explains why there are fewer jobs than rows.
        notes.insert(0, f"{reading.collected.counts['steps']:,} rows are steps, folded into their jobs")
    # The row is kept: most such files are complete, and only lack the last line end.
    if lines.open_end:
        notes.append("the last line has no line end: if the dump was cut off, its last value may be, too")
    return Workload(workload.jobs, workload.unusable, "sacct", lines.rows + len(lines.unusable), tuple(notes))


class JobEnergies(NamedTuple):
    """The energies of an sacct dump alone, one row per job in order of the dump. Shapes (n,).

    ``energy_j`` covers ``covered_node_s`` node-seconds (NaN: none counted); ``source`` indexes ``ENERGY_SOURCES``;
    ``failed_counters`` were left out as implausible; ``nodes`` is 0 where unknown.
    """

    job_id: NDArray[Any]
    nodes: NDArray[np.int32]
    runtime_s: Floats
    energy_j: Floats
    covered_node_s: Floats
    source: NDArray[np.uint8]
    failed_counters: NDArray[np.int32]


def read_energies(path: Path, *, node_watts: tuple[float, float] | None = None) -> JobEnergies:
    """Return only the energies of a dump.

    It needs JobID, ElapsedRaw, NNodes and ConsumedEnergyRaw, and no times of day, so that dumps published without
    submission times can be read.

    Raises: InputError as read_sacct does.
    """
    reading, lines = reading_of(ReadOptions(node_watts=node_watts)), Lines()
    for frame in _whole_jobs(path, lines, None, timeless=True):
        add_rows(frame, reading)
    # No job table is built here, so neither repeats nor shared nodes are looked for.
    if not reading.collected.blocks:
        raise InputError("0 jobs: no row below the header", where=path, hint="is the dump complete?")
    runs = reading.collected.joined()
    ids = job_ids(runs.job, runs.task)
    return JobEnergies(ids, runs.nodes, runs.elapsed_s, runs.energy_j, runs.covered_node_s, runs.source, runs.glitches)


def _whole_jobs(path: Path, lines: Lines, given: Header | None, *, timeless: bool = False) -> Iterator[pl.DataFrame]:
    """Yield the rows of a dump in pieces that never part a job from the steps below it.

    The last job of a piece is held back and put before the next piece.

    A block of 8 MB ends anywhere, also between a job and its steps; energies are chosen per job, so both must be in
    one frame. Where the header changes, the rows held back are yielded under the old one, since the columns may
    differ. ``timeless`` omits the check of the columns.

    Raises: InputError as ``pieces`` and ``check_columns`` do.
    """
    import polars as pl

    waiting: pl.DataFrame | None = None
    header: Header | None = None
    for piece in pieces(path, lines, given):
        if piece.header != header:
            header = piece.header
            if not timeless:
                check_columns(header.names, str(path))
            # All that was held back is yielded: steps of its last job cannot follow under another header.
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
    """Return where the last job of a frame begins, whose steps may continue in the next one.

    The result is a row number: rows before it are complete. It is the end of the frame (nothing is held back) where
    all rows are steps, or where one job has more than ``MOST_CARRIED`` of them, which bounds memory.
    """
    steps = column(frame, "jobid", "jobidraw").str.contains(".", literal=True).fill_null(value=False).to_numpy()
    last = len(frame) - 1 - int(np.argmin(steps[::-1]))
    return len(frame) if steps.all() or len(frame) - last > MOST_CARRIED else last
