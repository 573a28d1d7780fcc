"""CSV that EAR's ``eacct -c`` writes: run time and watts of jobs, node by node or job by job.

EAR (Energy Aware Runtime) renamed its columns several times; ``COLUMNS`` lists the names of each. The rows give the
signatures (time, watts, CPI, TPI) from which EAR's models predict other frequencies.

The file is separated by semicolons; its first line names the columns, in one of the spellings of ``COLUMNS``, in any
order and with further columns that are ignored. A cell that is no number counts as missing. A row without time, watts
and CPI above 0 was not measured by EAR's library (a job that was launched without it): it is left out and its line is
listed, whereas a missing column or a row that is too short ends the reading, since the file is then not what it seems.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.source import opened
from wattqueue.formats.unusable import known
from wattqueue.model.bounds import FREQUENCY_HZ
from wattqueue.model.ear import Signatures
from wattqueue.model.plain_numbers import number_of

COLUMNS = {
    "job_id": ("JOBID", "JOB_ID", "JOB-ID", "ID"),
    "step_id": ("STEPID", "STEP_ID", "STEP-ID"),
    "user": ("USERID", "USERNAME", "USER_ID", "USER-ID", "USER"),
    "app": ("JOBNAME", "JNAME", "APPID", "APP_ID", "APP-ID", "APPLICATION"),
    "tag": ("ENERGY_TAG", "ENERGY-TAG", "TAG"),
    "node": ("NODENAME", "NODE_ID", "NODE-ID", "NODE"),
    "frequency": ("AVG_CPUFREQ_KHZ", "AVG_CPUFREQ", "AVG-FREQ", "AVG.FREQ", "AVG_FREQ", "AVG.CPUFREQ", "FREQ"),
    "time_s": ("TIME_SEC", "TIME"),
    "cpi": ("CPI",),
    "tpi": ("TPI",),
    "gbs": ("MEM_GBS", "GBS", "GB/S"),
    "power_w": ("DC_NODE_POWER_W", "DC-NODE-POWER", "DC_NODE_POWER", "DC-POWER", "POWER(W)"),
}
"""Names of each column over EAR's versions, the newest first; case does not matter.

Units: ``time_s`` seconds, ``power_w`` watts of a node (DC), ``gbs`` GB/s of memory traffic, ``frequency`` kHz or GHz.
"""

MOST = 1e12
"""A greater figure is damage, and squares of it would leave float64; it counts as not stated."""
# Without one of these a row has no signature; all other columns may be absent.
REQUIRED = ("time_s", "cpi", "tpi", "power_w")
_KHZ_FROM = 1e4
"""A frequency above this is in kHz, below in GHz: older tables print GHz with two digits."""


@dataclass(frozen=True, slots=True, eq=False)
class Accounting:
    """Rows of an ``eacct`` file that EAR's library measured. Shapes (k,); texts are empty where a column is missing.

    A row is a job on one node, or a whole job, as the file has them; rows are in the order of the file.
    """

    job_id: NDArray[np.str_]
    """The job's number as text; several rows have the same one where the file is node by node."""
    user: NDArray[np.str_]
    """Name or number of the user, whichever the file has."""
    app: NDArray[np.str_]
    """The energy tag where there is one, else the job's name."""
    node: NDArray[np.str_]
    """Name of the node, empty where rows are whole jobs."""
    frequency_hz: NDArray[np.float64]
    """The average that the job ran at, NaN where unknown."""
    gbs: NDArray[np.float64]
    """Memory bandwidth in GB/s, NaN where unknown."""
    metrics: Signatures
    """Time, watts, CPI and TPI of each row."""
    left_out: int
    """Rows without a usable measurement; ``reasons`` names their lines."""
    reasons: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.job_id)


def read_eacct(path: Path) -> Accounting:
    """Return the rows of ``eacct -c``'s CSV, with the old header or the newer one.

    Rows that EAR's library did not measure (no CPI or no watts) are left out, counted and listed. The result may have
    no row at all.

    Raises: InputError naming file, line and field.
    """
    with opened(path) as source:
        lines = source.read().decode("utf-8-sig", "replace").splitlines()
    if not lines:
        raise InputError("is empty", where=path, hint="give the CSV that eacct -c writes")
    where = _columns(path, lines[0])
    kept: list[tuple[list[str], list[float]]] = []
    reasons: list[str] = []
    for number, cells in _rows(path, lines):
        texts = [cells[where[k]].strip() if k in where else "" for k in ("job_id", "user", "app", "node", "tag")]
        figures = [_figure(cells[where[k]]) if k in where else np.nan for k in (*REQUIRED, "frequency", "gbs")]
        # Figures are time, CPI, TPI and watts. A TPI of 0 is valid: a program may hardly touch memory. NaN fails both.
        if not all(f > 0 for f in (figures[0], figures[1], figures[3])) or not figures[2] >= 0:
            reasons.append(f"line {number}: no usable time, CPI, TPI or watts")
            continue
        kept.append((texts, figures))
    return _table(kept, tuple(reasons))


def _columns(path: Path, header: str) -> dict[str, int]:
    """Return the position of each column that the header has, by the keys of ``COLUMNS``.

    Raises: InputError naming the required columns that are missing, each by its newest spelling.
    """
    names = {name.strip().strip('"').upper(): i for i, name in enumerate(header.split(";"))}
    # Reversed, so that where a file has two spellings of one column the newest is assigned last and stays.
    found = {key: names[alias] for key, known in COLUMNS.items() for alias in reversed(known) if alias in names}
    lacking = [key for key in REQUIRED if key not in found]
    if lacking:
        wanted = ", ".join(COLUMNS[key][0] for key in lacking)
        raise InputError(f"no column {wanted}", where=f"{path}:1", hint="give the CSV that eacct -c writes")
    return found


def _rows(path: Path, lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells) of each row; ``lines`` are those of the whole file, the header first.

    Raises: InputError for a row shorter than the header.
    """
    # The header may end with a separator that the rows do not have, and the other way round.
    width = lines[0].rstrip(";").count(";") + 1
    reader = csv.reader(lines[1:], delimiter=";")
    for cells in reader:
        if not cells:
            continue
        if len(cells) < width:
            raise InputError(
                f"{len(cells)} cells, the header has {width}",
                where=f"{path}:{reader.line_num + 1}",
                hint="is the file complete?",
            )
        yield reader.line_num + 1, cells


def _figure(cell: str) -> float:
    """Return a cell as a number of at most ``MOST``, NaN for anything else."""
    value = number_of(cell)
    return value if abs(value) <= MOST else np.nan


def _table(kept: list[tuple[list[str], list[float]]], reasons: tuple[str, ...]) -> Accounting:
    """Return the rows that were kept as arrays.

    Each row of ``kept`` is (job, user, name, node, tag) and (time, CPI, TPI, watts, frequency, bandwidth).
    """
    # The shapes are stated so that they hold for no rows, too.
    texts = np.array([t for t, _ in kept], np.str_).reshape(-1, 5)
    time, cpi, tpi, power, frequency, gbs = np.array([f for _, f in kept], np.float64).reshape(-1, 6).T
    # No processor runs at 10 THz or at 10 kHz, so the unit follows from the size.
    with np.errstate(over="ignore"):
        hz = known(np.where(frequency > _KHZ_FROM, frequency * 1e3, frequency * 1e9), FREQUENCY_HZ)
    tag = texts[:, 4]
    return Accounting(
        job_id=texts[:, 0],
        user=texts[:, 1],
        app=np.where(tag != "", tag, texts[:, 2]),
        node=texts[:, 3],
        frequency_hz=hz,
        gbs=gbs,
        metrics=Signatures(time, power, cpi, tpi),
        left_out=len(reasons),
        reasons=reasons,
    )
