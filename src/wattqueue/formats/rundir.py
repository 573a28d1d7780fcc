"""The directory of a run: jobs.csv, power.parquet, metrics.json, run.toml, unusable.csv; written whole or not at all.

The same run gives the same bytes. ``run.toml`` holds what it takes to repeat the run: the facts that
its starter states (trace and its SHA-256, seed, policy row, options), the machine in full, the cap.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wattqueue import SCHEMA_VERSION, __version__
from wattqueue.errors import InputError
from wattqueue.formats import _run_tables as tables
from wattqueue.formats._aside import aside_folder, polars_errors
from wattqueue.formats._csv import whole_as_integers
from wattqueue.formats._source import opened
from wattqueue.formats._toml import dumps, read_toml
from wattqueue.formats.machine_toml import machine_data, machine_of
from wattqueue.formats.unusable import Unusable, put_unusable, read_unusable
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import Metrics
from wattqueue.model.schedule import PowerSeries, Schedule
from wattqueue.model.signals import Cap

if TYPE_CHECKING:
    import polars as pl

JOBS, POWER, METRICS, RUN, UNUSABLE = "jobs.csv", "power.parquet", "metrics.json", "run.toml", "unusable.csv"
OWN_KEYS = ("schema_version", "wattqueue_version", "origin", "watts", "machine", "cap")
"""Keys of run.toml that are written from the run itself; facts may not bear these names."""
MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, eq=False)
class RunRecord:
    """A finished run as its directory keeps it.

    ``facts`` are nested mappings of TOML values: whatever it takes to repeat the run beside machine
    and cap. Read back, ``jobs`` has the columns that jobs.csv carries; ``mean_power_w`` is then what
    a unit really drew, and the partition is where a job ran (``schedule.option``), not what it asked for.
    """

    jobs: Jobs
    machine: Machine
    cap: Cap
    schedule: Schedule
    power: PowerSeries
    metrics: Metrics
    facts: Mapping[str, Any] = field(default_factory=dict)
    unusable: Unusable = field(default_factory=Unusable)
    watts: str = ""
    """Whose figures the jobs' true watts are (``watts_origin``); empty: as ``jobs`` tell."""


def write_run(folder: Path, record: RunRecord) -> None:
    """Write a run's directory; files of other names in it stay.

    Raises: OutputError where it cannot be written or the disk is full: it is then as it was before.
    """
    with aside_folder(folder) as temporary, polars_errors(folder):
        jobs = tables.jobs_frame(record.jobs, record.schedule, record.machine)
        jobs.with_columns(whole_as_integers(jobs)).write_csv(temporary / JOBS)
        power = tables.power_frame(record.power, record.machine, record.cap)
        power.write_parquet(temporary / POWER, compression_level=1, metadata=_stamp(record))
        (temporary / METRICS).write_text(metrics_json(record), encoding="utf-8")
        (temporary / RUN).write_text(run_toml(record), encoding="utf-8")
        put_unusable(temporary / UNUSABLE, record.unusable)


def metrics_json(record: RunRecord) -> str:
    """metrics.json: one flat object by the names of SEMANTICS; null where a figure does not exist."""
    head = {"schema_version": SCHEMA_VERSION, "origin": record.jobs.origin, "cap_scope": record.machine.cap_scope}
    return json.dumps({**head, **record.metrics}, indent=2, allow_nan=False) + "\n"


def run_toml(record: RunRecord) -> str:
    """run.toml: versions, origin of the jobs, the facts as given, the cap, the machine in full."""
    taken = [key for key in OWN_KEYS if key in record.facts]
    if taken:
        raise ValueError(f"facts of a run may not be called {', '.join(taken)}")
    cap = {"time_s": record.cap.time_s.tolist(), "cap_w": record.cap.cap_w.tolist()}
    return dumps(
        {
            "schema_version": SCHEMA_VERSION,
            "wattqueue_version": __version__,
            "origin": record.jobs.origin,
            "watts": record.watts or watts_origin(record.jobs),
            **record.facts,
            "cap": cap,
            "machine": machine_data(record.machine),
        }
    )


def watts_origin(jobs: Jobs) -> str:
    """Whose figures the jobs' true watts are: ``workload``, ``workload in part`` or ``machine``."""
    peak = jobs.peak_power_w()
    known = np.isfinite(peak) if peak is not None else np.zeros(1, np.bool_)
    return "workload" if known.all() else "workload in part" if known.any() else "machine"


def read_run(folder: Path) -> RunRecord:
    """Read a run's directory back.

    Raises: InputError naming the file that is missing or not ours; MachineError for its machine.
    """
    facts, machine, cap = read_facts(folder)
    origin, watts = str(facts.get("origin", "measured")), str(facts.get("watts", ""))
    jobs, schedule = tables.jobs_of(folder / JOBS, _read_jobs(folder / JOBS), machine, origin)
    power = tables.power_of(_read_power(folder / POWER))
    facts = {key: value for key, value in facts.items() if key not in OWN_KEYS}
    unusable = read_unusable(folder / UNUSABLE)
    return RunRecord(jobs, machine, cap, schedule, power, read_metrics(folder), facts, unusable, watts)


def read_facts(folder: Path) -> tuple[dict[str, Any], Machine, Cap]:
    """run.toml: everything it says but machine and cap; the machine; the cap.

    Raises: InputError or MachineError naming the file.
    """
    path = folder / RUN
    if folder.is_dir() and not path.exists():
        raise InputError(f"holds no {RUN}", where=folder, mend="name the directory that --out named")
    data = read_toml(path, MOST_BYTES)
    if data.get("schema_version", SCHEMA_VERSION) > SCHEMA_VERSION:
        raise InputError(f"schema version {data['schema_version']}", where=path, mend="use a newer WattQueue")
    try:
        machine = machine_of(data.pop("machine"), path)
        cap = data.pop("cap")
        return data, machine, Cap(np.array(cap["time_s"], np.float64), np.array(cap["cap_w"], np.float64))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"does not describe a run: {error}", where=path, mend="run it again") from error


def read_metrics(folder: Path) -> Metrics:
    """The metrics of a run by name, without the stamps ahead of them. Raises: InputError."""
    path = folder / METRICS
    with opened(path) as source:
        text = source.read(MOST_BYTES)
    try:
        found = dict(json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"is not JSON of one object: {error}", where=path, mend="run it again") from error
    return {k: v for k, v in found.items() if k not in {"schema_version", "origin", "cap_scope"}}


def _read_jobs(path: Path) -> pl.DataFrame:
    import polars as pl

    kinds = dict.fromkeys(tables.NUMBERS, pl.Float64)
    with opened(path):
        pass
    try:
        frame = pl.read_csv(path, schema_overrides=kinds, infer_schema=False, glob=False)
        return frame.select(*tables.BATSIM, *tables.OURS).with_columns(pl.col(kinds).fill_null(float("nan")))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"is no table of a run: {_first_line(error)}", where=path, mend="run it again") from error


def _read_power(path: Path) -> pl.DataFrame:
    import polars as pl

    with opened(path):
        pass
    try:
        frame = pl.read_parquet(path, glob=False, hive_partitioning=False)
        return frame.select("time_s", "jobs_w", "other_w", "busy_idle_w", "busy_units")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"is no power series: {_first_line(error)}", where=path, mend="run it again") from error


def _stamp(record: RunRecord) -> dict[str, str]:
    stamps = {
        "schema_version": SCHEMA_VERSION,
        "origin": record.jobs.origin,
        "cap_scope": record.machine.cap_scope,
    }
    return {f"wattqueue.{key}": str(value) for key, value in stamps.items()}


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or ["unknown"])[0]
