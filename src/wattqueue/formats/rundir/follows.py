"""Whether the figures of a run folder follow from its tables, and whether its files are those that were written.

Files of a run are text that people edit, mostly by mistake: a spreadsheet drops rows, a script scales a column. A
report that draws such a folder states figures that no run had. So each reader of a folder computes again what its files
say twice, by the functions that computed it first, and refuses a difference by the name of the figure:

- the columns of jobs.csv that follow from others (``tables.derived``), units beside sizes, starts beside submissions;
- the columns of power.parquet that follow from others (``tables.power_frame``);
- the energy and the units of the jobs beside those of the power series;
- every metric (``model.metrics``).

What no other file says again (a user, a walltime, the name of the policy) is held by hashes: run.toml has the SHA-256
of the other files, of its own content, and of the policy's name with its row. Folders of before had none; of those only
the figures are checked.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.source import sha256_of
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import ENERGIES, Metrics, energies, metrics, span
from wattqueue.model.schedule import PowerSeries, Reason, Schedule
from wattqueue.model.signals import Cap
from wattqueue.model.steps import sum_of_products
from wattqueue.version import __version__

if TYPE_CHECKING:
    import polars as pl

HASHES = "sha256"
"""Table of run.toml: SHA-256 of the other files, of run.toml itself without this table, and of the policy."""
RUN, POLICY = "run.toml", "policy"
"""Keys of that table beside the names of files."""
MEANS = "power_means_s"
"""Fact of a run with power profiles: power.parquet has means over at most so many seconds, and the figures of the cap
are those of the exact sum, so that they do not follow from it."""
EXCESSES = tuple(f"{limit}_{name}" for limit in ("cap", "target") for name in ("overshoot_w", "over_s", "over_j"))
"""Those figures."""
RELATIVE, ABSOLUTE = 1e-7, 1e-5
"""Rounding that a figure may have: power counts in microwatts, differences of times in microseconds."""


class Stored(NamedTuple):
    """A run as its files state it."""

    folder: Path
    jobs: Jobs
    schedule: Schedule
    power: PowerSeries
    machine: Machine
    cap: Cap
    metrics: Metrics
    rows_unusable: int
    facts: Mapping[str, Any]
    """Everything in run.toml but machine and cap."""

    @property
    def hint(self) -> str:
        """Return what to do; a folder of another version may have figures that had another definition."""
        from wattqueue.formats.rundir import tables

        version = self.facts.get("wattqueue_version", __version__)
        return tables.AGAIN if version == __version__ else f"it is of WattQueue {version}: {tables.AGAIN} with this one"


def require_figures(stored: Stored, jobs: pl.DataFrame, power: pl.DataFrame) -> None:
    """Check that the figures of a folder follow from its tables; ``jobs`` and ``power`` are the rows as read.

    Raises: InputError naming the file, and the figure or the row.
    """
    _require_rows(stored, jobs)
    _require_columns(stored, power)
    _require_sums(stored)
    _require_metrics(stored)


def _require_rows(stored: Stored, frame: pl.DataFrame) -> None:
    """Check each row of jobs.csv: no start before the submission, as many units as stated, columns that follow."""
    from wattqueue.formats.rundir import tables

    jobs, schedule, path = stored.jobs, stored.schedule, stored.folder / "jobs.csv"
    ran = schedule.ran
    early = ran & (schedule.start_s < jobs.submit_s - ABSOLUTE)
    _require(~early, path, "starting_time is before submission_time", stored.hint)
    units = _sums(schedule, schedule.unit_high - schedule.unit_low + 1)
    _require(
        ~ran | (units == jobs.nodes),
        path,
        "allocated_resources are not requested_number_of_resources",
        stored.hint,
    )
    for name, column in tables.derived(jobs, schedule).items():
        told = frame[name].to_numpy()
        _require(_close(told, column), path, f"{name} does not follow from the other columns", stored.hint)


def _require_columns(stored: Stored, frame: pl.DataFrame) -> None:
    """Check the columns of power.parquet that are sums of others, and its rows at changes of the cap."""
    from wattqueue.formats.rundir import tables

    path, again = stored.folder / "power.parquet", tables.power_frame(stored.power, stored.machine, stored.cap)
    if len(again) != len(frame):
        raise InputError(
            f"lacks rows at changes of the cap: {len(frame)} of {len(again)}", where=path, hint=stored.hint
        )
    for name in (name for name in again.columns if name in frame.columns):
        told, column = frame[name].to_numpy(), again[name].to_numpy()
        _require(_close(told, column), path, f"{name} does not follow from the other columns and the cap", stored.hint)


def _require_sums(stored: Stored) -> None:
    """Check energy and units of the jobs beside those of the power series.

    The series has more than the table where a run was interrupted (a requeue), or its job never ran to an end.
    """
    jobs, s, power = stored.jobs, stored.schedule, stored.power
    ran = s.ran
    drawn = energies(power, stored.machine, *span(jobs, s))
    run_s = s.end_s[ran] - s.start_s[ran] - (0.0 if s.parked_s is None else s.parked_s[ran])
    unit_s = sum_of_products(jobs.nodes[ran].astype(np.float64), run_s)
    whole = bool((ran | (s.reason == Reason.TOO_WIDE)).all())
    pairs = (
        ("consumed_energy", float(s.energy_j[ran].sum()), drawn["jobs_j"], whole),
        ("units times run times", unit_s, drawn["busy_unit_s"], False),
    )
    for name, told, power_says, equal in pairs:
        if not (_close(told, power_says) if equal else told <= power_says + ABSOLUTE + RELATIVE * power_says):
            raise InputError(
                f"{name} add up to {told:.9g}, in power.parquet to {power_says:.9g}",
                where=stored.folder / "jobs.csv",
                hint=stored.hint,
            )


def _require_metrics(stored: Stored) -> None:
    """Check every metric that the folder states and that this version computes."""
    told = stored.metrics
    again = metrics(
        stored.jobs, stored.schedule, stored.power, stored.machine, stored.cap, rows_unusable=stored.rows_unusable
    )
    if not stored.power.machine_w.any():  # nothing states any watts: energies are left out, or 0
        again |= {name: told.get(name) for name in ENERGIES if not told.get(name)}
    # A folder of before does not say that its power has means.
    means = MEANS in stored.facts or HASHES not in stored.facts
    for name in (name for name in again if name in told):
        one, other = told[name], again[name]
        if one is None or other is None:
            same = one is other
        elif means and name in EXCESSES:  # that of means is never more; its time may be more or less
            same = name.endswith("over_s") or one >= other - ABSOLUTE - RELATIVE * abs(other)
        else:
            same = bool(_close(one, other))
        if not same:
            raise InputError(
                f"{name} is {_text(one)}, jobs.csv and power.parquet give {_text(other)}",
                where=stored.folder / "metrics.json",
                hint=stored.hint,
            )


def hashes(folder: Path, names: tuple[str, ...], text: str) -> dict[str, str]:
    """Return the table of hashes for a run.toml with this text, beside the files of these names."""
    data = tomllib.loads(text)
    return {**{name: sha256_of(folder / name) for name in names}, **_own_hashes(data)}


def require_facts(data: Mapping[str, Any], path: Path) -> None:
    """Check what run.toml says of itself: the policy's name with its row, and its whole content.

    Raises: InputError. A file without hashes (of before) passes.
    """
    from wattqueue.formats.rundir import tables

    told = _hashes_of(data, path)
    for key, digest in _own_hashes(data).items():
        if told.get(key, digest) != digest:
            what = "the policy is not the one of the recorded name and row" if key == POLICY else "was changed"
            raise InputError(f"{what}: its SHA-256 is another", where=path, hint=tables.AGAIN)


def require_files(data: Mapping[str, Any], folder: Path) -> None:
    """Check that the other files are those that run.toml names by hash. Raises: InputError naming the file."""
    from wattqueue.formats.rundir import tables

    for name, digest in _hashes_of(data, folder / RUN).items():
        if name not in (RUN, POLICY) and sha256_of(folder / name) != digest:
            raise InputError(
                "is not the file that the run wrote: its SHA-256 is another", where=folder / name, hint=tables.AGAIN
            )


def _hashes_of(data: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Return the hashes that a run.toml states; none in one of before. Raises: InputError for other values."""
    from wattqueue.formats.rundir import tables

    told = data.get(HASHES, {})
    if not isinstance(told, dict) or not all(isinstance(digest, str) for digest in told.values()):
        raise InputError(f"{HASHES} is no table of hashes", where=path, hint=tables.AGAIN)
    return told


def _own_hashes(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the hashes of what run.toml itself says. Of values, not of text: comments and blanks mean nothing."""
    task = data.get("task")
    row = {"name": task.get("policy") if isinstance(task, dict) else None, "row": data.get("policy")}
    return {POLICY: _digest(row), RUN: _digest({key: value for key, value in data.items() if key != HASHES})}


def _digest(data: Mapping[str, Any]) -> str:
    """Return the SHA-256 of TOML values, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


def _require(good: NDArray[np.bool_], path: Path, what: str, hint: str) -> None:
    """Raise InputError with the first row that is not good."""
    if not good.all():
        raise InputError(what, where=f"{path}: row {int(np.argmin(good)) + 1}", hint=hint)


def _sums(schedule: Schedule, each: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the sum of ``each`` (intervals,) over the intervals of each job. Shape (n,)."""
    before = np.concatenate(([0], np.cumsum(each, dtype=np.int64)))
    total: NDArray[np.int64] = before[schedule.unit_start + schedule.unit_count] - before[schedule.unit_start]
    return total


def _close(one: Floats | float, other: Floats | float) -> NDArray[np.bool_]:
    """Return whether figures differ by rounding only; NaN and infinity equal themselves."""
    return np.isclose(one, other, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)


def _text(value: float | None) -> str:
    """Return a figure as an error shows it."""
    return "null" if value is None else f"{value:.9g}"
