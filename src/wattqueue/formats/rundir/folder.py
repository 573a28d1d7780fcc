"""The folder of a run: jobs.csv, power.parquet, metrics.json, run.toml, unusable.csv; written as a whole.

The same run gives identical files. ``run.toml`` holds what it takes to repeat the run: the facts that the verb
states (trace and its SHA-256, seed, policy row, options), the machine in full, the cap. Reports and ``compare``
read it back with ``read_run``.

The files and who reads them:

- ``jobs.csv``: one row per usable job with its start, end and watts (``tables``); Batsim's columns come first;
- ``power.parquet``: watts of the machine over time, piecewise constant;
- ``metrics.json``: one flat object of figures, by the names of docs/semantics.md;
- ``run.toml``: the recipe, for ``rerun`` and for people;
- ``unusable.csv``: rows of the trace that were left out.

Reading checks everything that later computations rely on (finite figures, times that do not go back), and that the
figures follow from the tables (``follows``), since a user may have edited a file; each failure is an InputError with
the file's name. ``read_run(write_run(record))`` gives an equal record for everything that the files carry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.machine.file import machine_data, machine_of
from wattqueue.formats.rundir import follows
from wattqueue.formats.source import exists, opened
from wattqueue.formats.toml import dumps, read_toml
from wattqueue.formats.unusable import Unusable, put_unusable, read_unusable
from wattqueue.model.comparability import WorkDone
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import Metrics
from wattqueue.model.schedule import PowerSeries, Schedule
from wattqueue.model.signals import Cap
from wattqueue.version import SCHEMA_VERSION, __version__

if TYPE_CHECKING:
    import polars as pl

JOBS, POWER, METRICS, RUN, UNUSABLE = "jobs.csv", "power.parquet", "metrics.json", "run.toml", "unusable.csv"
"""Names of the files in the folder."""
STAMPS = ("schema_version", "origin", "cap_scope", "oracle")
"""Keys of metrics.json that are no metrics; ``oracle`` names the parts that knew the future, empty for none."""
SITE_CAP = "site_cap"
"""Key of run.toml for the cap without the load targets in ``cap``, where there are any."""
TRUTH = "truth"
"""Key of run.toml for the hash of the run's physics, where it had any."""
OWN_KEYS = ("schema_version", "wattqueue_version", "origin", "watts", "machine", "cap", SITE_CAP, follows.HASHES)
"""Keys of run.toml that are written from the run itself; facts may not have these names."""
MOST_BYTES = 256 << 20
"""Largest run.toml or metrics.json that is read: a cap may have a step every few minutes for years."""


@dataclass(frozen=True, slots=True, eq=False)
class RunRecord:
    """A finished run as its folder keeps it.

    ``facts`` are nested mappings of TOML values: what it takes to repeat the run, beside machine and cap. Read
    back, ``jobs`` has the columns that jobs.csv carries; ``mean_power_w`` is then what a unit really drew, and the
    partition is where a job ran (``schedule.option``), not what it asked for.

    ``machine``, ``cap`` and ``schedule`` are those of the simulation; ``power`` is the series of watts that follows
    from them; ``metrics`` maps names to figures, None where one does not exist; ``unusable`` are the rows of the
    trace without a job.
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
    """Whose figures the jobs' true watts are (``watts_origin``); empty: decided by ``jobs``."""

    @property
    def work(self) -> WorkDone:
        """Return how many jobs never ran and why, and what decides whether two runs may be compared."""
        return WorkDone.of(self.jobs, self.schedule, truth_of(self.facts))


def truth_of(facts: Mapping[str, Any]) -> str:
    """Return the hash of the physics of a run from its facts; empty where it had none."""
    return str(facts.get(TRUTH, ""))


def write_run(folder: Path, record: RunRecord) -> None:
    """Write a run's folder; files of other names in it stay.

    All files are written and brought to disk before the first one replaces an older one (``atomic_folder``).

    Raises: OutputError where it cannot be written or the disk is full: it is then as it was before.
    """
    from wattqueue.formats.atomic_folder import atomic_folder, polars_errors
    from wattqueue.formats.csv_records import whole_as_integers

    with atomic_folder(folder) as temporary, polars_errors(folder):
        jobs = jobs_table(record)
        # Times that are whole numbers are written without ".0": files are smaller and easier to compare.
        jobs.with_columns(whole_as_integers(jobs)).write_csv(temporary / JOBS)
        power_table(record).write_parquet(temporary / POWER, compression_level=1, metadata=_stamp(record))
        (temporary / METRICS).write_text(metrics_json(record), encoding="utf-8")
        put_unusable(temporary / UNUSABLE, record.unusable)
        text = run_toml(record)
        hashes = follows.hashes(temporary, (JOBS, POWER, METRICS, UNUSABLE), text)
        (temporary / RUN).write_text(f"{text}\n{dumps({follows.HASHES: hashes})}", encoding="utf-8")


def jobs_table(record: RunRecord) -> pl.DataFrame:
    """Return the columns of jobs.csv as a frame: one row per usable job, null where a field does not exist."""
    from wattqueue.formats.rundir import tables

    return tables.jobs_frame(record.jobs, record.schedule, record.machine)


def power_table(record: RunRecord) -> pl.DataFrame:
    """Return the columns of power.parquet as a frame: each row holds from its time to the next one's."""
    from wattqueue.formats.rundir import tables

    return tables.power_frame(record.power, record.machine, record.cap)


def metric_values(record: RunRecord) -> dict[str, Any]:
    """Return the keys and values of metrics.json: the stamps, then the metrics by the names of docs/semantics.md."""
    jobs, machine, oracle = record.jobs, record.machine, record.facts.get("oracle", "")
    values = (SCHEMA_VERSION, jobs.origin, machine.cap_scope, oracle)
    return {**dict(zip(STAMPS, values, strict=True)), **record.metrics}


def metrics_json(record: RunRecord) -> str:
    """Return metrics.json: one flat object; null where a figure does not exist.

    JSON has no infinity or NaN, so a figure that is either is a defect and raises ValueError here.
    """
    return json.dumps(metric_values(record), indent=2, allow_nan=False) + "\n"


def run_toml(record: RunRecord) -> str:
    """Return run.toml without its hashes: versions, origin of the jobs, the facts as given, cap, machine in full.

    Raises: ValueError for a fact with the name of a key that is written here, which is a defect of the caller.
    """
    # A fact of one of these names would be overwritten in silence: a defect of the verb, so no error for users.
    taken = [key for key in OWN_KEYS if key in record.facts]
    if taken:
        raise ValueError(f"facts of a run may not be called {', '.join(taken)}")
    # The cap in full, in watts: a percentage or a file could mean something else when the run is repeated.
    caps = {"cap": _columns(record.cap)}
    if record.cap.alone_w is not None:
        alone = record.cap.alone
        changes = np.append(True, alone.cap_w[1:] != alone.cap_w[:-1])
        caps[SITE_CAP] = _columns(Cap(alone.time_s[changes], alone.cap_w[changes]))
    return dumps(
        {
            "schema_version": SCHEMA_VERSION,
            "wattqueue_version": __version__,
            "origin": record.jobs.origin,
            "watts": record.watts or watts_origin(record.jobs),
            **record.facts,
            **caps,
            "machine": machine_data(record.machine),
        }
    )


def watts_origin(jobs: Jobs) -> str:
    """Return whose figures the jobs' true watts are.

    ``workload``: each job has watts of its own; ``workload in part``: some do; ``machine``: none does, so the
    simulation takes the maximum of the machine for all. Reports print it, since conclusions about energy depend on
    it.
    """
    peak = jobs.peak_power_w()
    known = np.isfinite(peak) if peak is not None else np.zeros(1, np.bool_)
    return "workload" if known.all() else "workload in part" if known.any() else "machine"


def read_run(folder: Path) -> RunRecord:
    """Return a run from its folder. All that draw or use a finished run read it here.

    Raises: InputError naming the file that is missing or was not written by WattQueue, or a figure that does not follow
    from the tables (``follows``); MachineError for its machine.
    """
    from wattqueue.formats.rundir import tables

    # run.toml first: it has the schema version, and without it the folder is no run.
    facts, machine, cap = read_facts(folder)
    origin, watts = str(facts.get("origin", "measured")), str(facts.get("watts", ""))
    rows, series = _read_jobs(folder / JOBS), _read_power(folder / POWER)
    jobs, schedule = tables.jobs_of(folder / JOBS, rows, machine, origin)
    power, found, unusable = tables.power_of(series), read_metrics(folder), read_unusable(folder / UNUSABLE)
    stored = follows.Stored(folder, jobs, schedule, power, machine, cap, found, len(unusable), facts)
    follows.require_figures(stored, rows, series)
    follows.require_files(facts, folder)  # last: a figure says more than a hash
    own = {key: value for key, value in facts.items() if key not in OWN_KEYS}
    return RunRecord(jobs, machine, cap, schedule, power, found, own, unusable, watts)


def read_facts(folder: Path) -> tuple[dict[str, Any], Machine, Cap]:
    """Return everything in run.toml but machine and cap; the machine; the cap.

    The schema version is checked first: a newer file may have other keys, and its errors would mislead.

    Raises: InputError or MachineError naming the file.

    ``cap`` in run.toml has two lists of one length: ``time_s`` (s on the clock of the trace) and ``cap_w`` (W, may be
    ``inf``).
    """
    path = folder / RUN
    if exists(folder) and folder.is_dir() and not path.exists():
        raise InputError(f"holds no {RUN}", where=folder, hint="name the directory that --out named")
    data = read_toml(path, MOST_BYTES)
    # A version that is no integer is refused like a newer one: the file is not from any version of this program.
    version = data.get("schema_version", SCHEMA_VERSION)
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise InputError(
            f"schema version {version!s}, this program reads up to {SCHEMA_VERSION}",
            where=path,
            hint="use a newer WattQueue",
        )
    follows.require_facts(data, path)
    try:
        machine = machine_of(data.pop("machine"), path)
        cap = _cap_of(data.pop("cap"))
        if SITE_CAP in data:  # the cap has load targets in it
            cap = Cap(cap.time_s, cap.cap_w, np.asarray(_cap_of(data[SITE_CAP]).at(cap.time_s), np.float64))
        return data, machine, cap
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"does not describe a run: {error}", where=path, hint="run it again") from error


def _columns(cap: Cap) -> dict[str, list[float]]:
    """Return a cap as two lists."""
    return {"time_s": cap.time_s.tolist(), "cap_w": cap.cap_w.tolist()}


def _cap_of(columns: Mapping[str, Any]) -> Cap:
    """Return the cap of two lists."""
    return Cap(np.array(columns["time_s"], np.float64), np.array(columns["cap_w"], np.float64))


def read_metrics(folder: Path) -> Metrics:
    """Return the metrics of a run by name, without the stamps above them.

    Each must be a finite number or null, as ``metrics_json`` writes them; ``compare`` and reports compute with
    them.

    Raises: InputError.
    """
    from wattqueue.formats.json_text import figure

    path = folder / METRICS
    with opened(path) as source:
        text = source.read(MOST_BYTES)
    try:
        found = dict(json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"is not JSON of one object: {error}", where=path, hint="run it again") from error
    found = {k: v for k, v in found.items() if k not in STAMPS}
    for name, value in found.items():
        # figure() would accept a text that is a number; here a text means that the file was edited.
        if isinstance(value, (bool, str)) or (value is not None and figure(value) is None):
            raise InputError(f"{name} is not a number or null", where=path, hint="run it again")
    return found


def _read_jobs(path: Path) -> pl.DataFrame:
    """Return the rows of jobs.csv. Raises: InputError where columns are missing or hold no numbers.

    Columns of numbers (``tables.COLUMNS``) are float64 with NaN for empty fields, all others text. Further columns,
    which folders without hashes may have, are dropped.
    """
    import polars as pl

    from wattqueue.formats.rundir import tables

    # No inference: an id such as 007 must stay a text, and a column without values must stay a column of numbers.
    numbers = [column.name for column in tables.COLUMNS if column.number]
    kinds = dict.fromkeys((*numbers, *(column.name for column in tables.OPTIONAL)), pl.Float64)
    with opened(path):
        pass
    try:
        frame = pl.read_csv(path, schema_overrides=kinds, infer_schema=False, glob=False)
        # A missing column is an error of polars here, with its name in the first line.
        more = [column.name for column in tables.OPTIONAL if column.name in frame.columns]
        found = frame.select(*(column.name for column in tables.COLUMNS), *more)
        return found.with_columns(pl.col(*numbers, *more).fill_null(float("nan")))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise InputError(
            f"is not the job table of a run: {_first_line(error)}", where=path, hint="run it again"
        ) from error


def _read_power(path: Path) -> pl.DataFrame:
    """Return the rows of power.parquet.

    Raises: InputError where it is none, or has gaps, infinite figures or times that go back.

    Columns: ``time_s`` (s), ``jobs_w``, ``other_w`` and ``busy_idle_w`` (W), ``busy_units`` (count, int32); those that
    follow from them (``tables.power_frame``) as far as the file has them.
    """
    import polars as pl

    from wattqueue.formats._parquet import readable
    from wattqueue.formats.rundir import tables

    with opened(path):
        pass
    with readable(path):
        frame = pl.read_parquet(path, glob=False, hive_partitioning=False)
    try:
        sums = [name for name in tables.POWER_SUMS if name in frame.columns]
        figures = [pl.col(name).cast(pl.Float64) for name in ("time_s", "jobs_w", "other_w", "busy_idle_w")]
        whole = frame.select(pl.col(sums).cast(pl.Float64))
        frame = frame.select(*figures, pl.col("busy_units").cast(pl.Int32))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"is not a power series: {_first_line(error)}", where=path, hint="run it again") from error
    if not all(kind.is_numeric() for kind in frame.dtypes):  # a cast leaves lists and structs as they are
        raise InputError("holds columns that are not numbers", where=path, hint="run it again")
    time = frame["time_s"].to_numpy()
    if any(not kind.is_numeric() for kind in frame.dtypes):
        raise InputError("is not a power series: a column holds no numbers", where=path, hint="run it again")
    finite = frame.select(pl.all().cast(pl.Float64).is_finite().all()).row(0)
    if any(frame.null_count().row(0)) or not all(finite) or (np.diff(time) < 0).any():
        raise InputError("has gaps, infinite figures or times that go back", where=path, hint="run it again")
    return frame.hstack(whole)


def _stamp(record: RunRecord) -> dict[str, str]:
    """Return the metadata of power.parquet.

    The keys carry the prefix ``wattqueue.``, so that they cannot meet those of other programs.
    """
    stamps = {
        "schema_version": SCHEMA_VERSION,
        "origin": record.jobs.origin,
        "cap_scope": record.machine.cap_scope,
    }
    return {f"wattqueue.{key}": str(value) for key, value in stamps.items()}


def _first_line(error: BaseException) -> str:
    """Return the first line of an error: polars adds pages of advice below it."""
    return (str(error).splitlines() or ["unknown"])[0]
