"""CSV that EAR's ``eacct -c`` writes: what jobs took and drew, node by node or job by job."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats._source import opened
from wattqueue.model.ear import Metrics

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
"""Names of each column over EAR's versions, the newest first; case does not matter."""

REQUIRED = ("time_s", "cpi", "tpi", "power_w")
_KHZ_FROM = 1e4
"""A frequency above this is in kHz, below in GHz: older tables print GHz with two digits."""


@dataclass(frozen=True, slots=True, eq=False)
class Accounting:
    """Rows of an ``eacct`` file that EAR's library measured.

    Shapes (k,): ``job_id``, ``user``, ``app`` (the energy tag where there is one, else the job's
    name), ``node`` as text, empty where the file has no such column; ``frequency_hz`` the mean the
    job ran at, NaN where unknown; ``gbs`` memory bandwidth, NaN where unknown. ``left_out`` counts
    rows without a usable measurement, ``reasons`` says which lines.
    """

    job_id: NDArray[np.str_]
    user: NDArray[np.str_]
    app: NDArray[np.str_]
    node: NDArray[np.str_]
    frequency_hz: NDArray[np.float64]
    gbs: NDArray[np.float64]
    metrics: Metrics
    left_out: int
    reasons: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.job_id)


def read_eacct(path: Path) -> Accounting:
    """Read ``eacct -c``'s CSV, with the old header or the newer one.

    Rows that EAR's library did not measure (no CPI or no watts) are left out, counted and listed.

    Raises: InputError naming file, line and field.
    """
    with opened(path) as source:
        lines = source.read().decode("utf-8-sig", "replace").splitlines()
    if not lines:
        raise InputError("is empty", where=path)
    where = _columns(path, lines[0])
    kept: list[tuple[list[str], list[float]]] = []
    reasons: list[str] = []
    for number, cells in _rows(path, lines):
        texts = [cells[where[k]].strip() if k in where else "" for k in ("job_id", "user", "app", "node", "tag")]
        figures = [_figure(cells[where[k]]) if k in where else np.nan for k in (*REQUIRED, "frequency", "gbs")]
        if not all(f > 0 for f in (figures[0], figures[1], figures[3])) or not figures[2] >= 0:
            reasons.append(f"line {number}: no usable time, CPI, TPI or watts")
            continue
        kept.append((texts, figures))
    return _table(kept, tuple(reasons))


def _columns(path: Path, header: str) -> dict[str, int]:
    names = {name.strip().strip('"').upper(): i for i, name in enumerate(header.split(";"))}
    found = {key: names[alias] for key, known in COLUMNS.items() for alias in reversed(known) if alias in names}
    lacking = [key for key in REQUIRED if key not in found]
    if lacking:
        wanted = ", ".join(COLUMNS[key][0] for key in lacking)
        raise InputError(f"line 1: no column {wanted}", where=path, mend="give the CSV that eacct -c writes")
    return found


def _rows(path: Path, lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    width = lines[0].rstrip(";").count(";") + 1
    reader = csv.reader(lines[1:], delimiter=";")
    for cells in reader:
        if not cells:
            continue
        if len(cells) < width:
            raise InputError(f"line {reader.line_num + 1}: {len(cells)} cells, the header has {width}", where=path)
        yield reader.line_num + 1, cells


def _figure(cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        return np.nan
    return value if np.isfinite(value) else np.nan


def _table(kept: list[tuple[list[str], list[float]]], reasons: tuple[str, ...]) -> Accounting:
    texts = np.array([t for t, _ in kept], np.str_).reshape(-1, 5)
    time, cpi, tpi, power, frequency, gbs = np.array([f for _, f in kept], np.float64).reshape(-1, 6).T
    hz = np.where(frequency > _KHZ_FROM, frequency * 1e3, frequency * 1e9)
    hz = np.where(frequency > 0, hz, np.nan)
    tag = texts[:, 4]
    return Accounting(
        job_id=texts[:, 0],
        user=texts[:, 1],
        app=np.where(tag != "", tag, texts[:, 2]),
        node=texts[:, 3],
        frequency_hz=hz,
        gbs=gbs,
        metrics=Metrics(time, power, cpi, tpi),
        left_out=len(reasons),
        reasons=reasons,
    )
