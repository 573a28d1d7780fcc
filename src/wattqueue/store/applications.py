"""The application database: time and power of applications, learned from finished runs; and misnamed jobs.

Paper 1 (section 3.2) keeps one row per (application, hardware configuration): the means of run time, power, CPI and
TPI over all runs that were measured there, at the nominal frequency. EAMC predicts from these rows what a job will
take and draw on each partition at each frequency. The life of a row:

1. a run ends and EAR's accounting (``eacct``) or the live controller reports its means: ``AppRun``;
2. ``learn`` projects it to the nominal frequency with the coefficients of EAR's model, and moves the row's means;
3. ``profiles`` reads all rows of the configurations that a machine has, estimates those that are missing from
   configurations where the application has run, and returns the tables that the estimator ``ear`` uses.

The database is shared: several controllers, an administrator at the command line and imports may write at the same
time. Every write is therefore one SQL statement whose new values the database computes from the row as it is at that
moment; nothing is read, changed in Python and written back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, Engine, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from wattqueue.errors import InputError
from wattqueue.formats.ear.eacct import Accounting
from wattqueue.model.app_check import Consequence, Ladder
from wattqueue.model.app_profiles import AppProfiles, ear_profiles
from wattqueue.model.ear import Coefficients, Signatures, at_frequency
from wattqueue.model.ear_learning import estimate_elsewhere
from wattqueue.store.database import open_database, upsert
from wattqueue.store.migrations import upgrade
from wattqueue.store.tables import BINARY, ENTRY, MISFIT

METRICS = ("time_s", "power_w", "cpi", "tpi")
"""Columns that are averaged: run time in s, mean watts of one node, cycles per instruction, memory transactions
per instruction."""
_STEP_HZ = 0.05e9
"""How far a run's mean frequency may lie from a P-state and still count for it, in Hz.

EAR reports the mean over the run, for example 2.38 GHz for a job that ran at 2.4. P-states are 0.1 GHz apart, so half
of that assigns each mean to one P-state only."""


@dataclass(frozen=True, slots=True)
class AppRun:
    """One finished run: means over its nodes, at the mean frequency of the run.

    ``hardware`` names the hardware configuration (a partition of the machine). Units as in ``METRICS``, hertz for the
    frequency; ``power_w`` is of one node.
    """

    app: str
    hardware: str
    frequency_hz: float
    time_s: float
    power_w: float
    cpi: float
    tpi: float


@dataclass(frozen=True, slots=True)
class Entry(AppRun):
    """A row of the database: means over ``runs`` runs at one frequency.

    The frequency is the nominal one where coefficients were given to ``learn``, else that of the first run.
    """

    runs: int


@dataclass(frozen=True, slots=True)
class Misfit:
    """A job whose measured metrics do not fit the application that its user named (paper 1, section 3.4).

    ``claimed`` is the name that the user gave, ``found`` the application whose metrics are nearest (empty where none
    is near enough), ``distance`` how far the measurement lies from the claimed application, relative to its metrics.
    ``time_s`` is when it was detected, in seconds since the epoch.
    """

    job_id: str
    user: str
    time_s: float
    claimed: str
    found: str
    distance: float


class ApplicationDatabase:
    """Metrics by (application, hardware configuration), in SQLite, PostgreSQL or MariaDB.

    Concurrent writers lose nothing: each write is one statement that the database applies to the current row.
    The engine is the caller's; ``open`` creates one and brings the schema up to date.
    Reference: paper 1, section 3.2.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @classmethod
    def open(cls, url: str | Path, *, make: bool = True) -> ApplicationDatabase:
        """Open the database of a URL or an SQLite file, and upgrade its schema.

        With ``make`` an SQLite file that does not exist is created; without, a mistyped path is an error instead of a
        new, empty database.

        Raises: InputError for a database that WattQueue cannot use, and without ``make`` for a missing file.
        """
        engine = open_database(url, make=make, mariadb=True)
        upgrade(engine)
        return cls(engine)

    def learn(self, runs: Iterable[AppRun], coefficients: Mapping[str, Coefficients] | None = None) -> int:
        """Add finished runs to the means of their rows, and return how many were used.

        ``coefficients`` by hardware configuration project a run to the nominal frequency first. A run is left out if
        it cannot be projected (no coefficients for its frequency, or a mean between two P-states). Without
        coefficients a run is left out if its frequency differs from that of its row, since means over different
        frequencies describe none of them.

        All runs of a call are one transaction.

        Raises: InputError for figures that are not positive numbers.
        """
        used = 0
        with self.engine.begin() as connection:
            # All writers lock rows in the same order, so that two of them can never wait for each other (deadlock).
            for run in sorted(runs, key=lambda r: (r.app, r.hardware)):
                _require_positive(run)
                nominal = _at_nominal(run, (coefficients or {}).get(run.hardware))
                used += nominal is not None and self._add(connection, nominal)
        return used

    def _add(self, connection: Connection, run: AppRun) -> int:
        """Insert a row, or move the means of the existing one; return 1 if something was written.

        The running mean m + (x - m) / (n + 1) is computed by the database from the row's own m and n. The condition
        on the frequency leaves a row of another frequency unchanged.
        """
        values = {name: getattr(run, name) for name in ("app", "hardware", "frequency_hz", *METRICS)}
        moved = {name: ENTRY.c[name] + (values[name] - ENTRY.c[name]) / (ENTRY.c.runs + 1.0) for name in METRICS}
        same = func.abs(ENTRY.c.frequency_hz - run.frequency_hz) < _STEP_HZ
        # The number of runs comes last: MariaDB computes one value after the other, the means from the former number.
        return int(upsert(connection, ENTRY, {**values, "runs": 1}, {**moved, "runs": ENTRY.c.runs + 1}, where=same))

    def entry(self, app: str, hardware: str) -> Entry | None:
        """Return one row, None if there is none."""
        found = self._entries(ENTRY.c.app == app, ENTRY.c.hardware == hardware)
        return found[0] if found else None

    def entries(self) -> list[Entry]:
        """Return all rows, ordered by application and hardware configuration."""
        return self._entries()

    def _entries(self, *conditions: Any) -> list[Entry]:
        """Return the rows that meet all SQL conditions, in a fixed order, so that outputs repeat exactly."""
        query = select(ENTRY).where(*conditions).order_by(ENTRY.c.app, ENTRY.c.hardware)
        with self.engine.connect() as connection:
            return [Entry(**row) for row in connection.execute(query).mappings()]

    def forget(self, app: str, hardware: str) -> bool:
        """Delete a row, for example because the application was rebuilt and its old metrics no longer hold.

        Returns whether there was such a row.
        """
        with self.engine.begin() as connection:
            gone = delete(ENTRY).where(ENTRY.c.app == app, ENTRY.c.hardware == hardware)
            return connection.execute(gone.returning(ENTRY.c.app)).first() is not None

    def set_binary(self, app: str, hardware: str, path: str) -> None:
        """Store the path of an application's executable for a hardware configuration, replacing an earlier one.

        Paper 1 (section 3.4) offers a partition only if the application was built for it.
        """
        with self.engine.begin() as connection:
            upsert(connection, BINARY, {"app": app, "hardware": hardware, "path": path}, {"path": path})

    def binaries(self, app: str) -> dict[str, str]:
        """Return the executable for each hardware configuration.

        An empty result means that one executable runs everywhere, not that there is none.
        """
        query = select(BINARY.c.hardware, BINARY.c.path).where(BINARY.c.app == app).order_by(BINARY.c.hardware)
        with self.engine.connect() as connection:
            return {str(hardware): str(path) for hardware, path in connection.execute(query)}

    def profiles(self, coefficients: Mapping[str, Coefficients], first_run: str = "estimate") -> AppProfiles:
        """Return profiles of every known application on every hardware configuration that has coefficients.

        ``first_run`` decides what happens where an application has not run yet. ``estimate`` computes its metrics from
        those on another configuration, scaled by the applications that ran on both. ``trial`` leaves them unknown
        (NaN), so that the estimator gives the job a trial run. An application that has executables, but none for a
        configuration, gets NaN there in both cases and is not offered.

        Raises: InputError for any other ``first_run``.
        Reference: paper 1, sections 3.2 and 3.4.
        """
        apps, tables = self.metrics(coefficients, first_run)
        return ear_profiles(apps, coefficients, tables, "application database")

    def metrics(
        self, coefficients: Mapping[str, Coefficients], first_run: str = "estimate"
    ) -> tuple[tuple[str, ...], dict[str, Signatures]]:
        """Return the names of all known applications, and their metrics at the nominal frequency by configuration.

        ``first_run`` as for ``profiles``. Raises: InputError for any other.
        """
        if first_run not in ("estimate", "trial"):
            raise InputError(f"first_run {first_run!r}", hint="use estimate or trial")
        entries = [e for e in self.entries() if e.hardware in coefficients]
        apps = tuple(sorted({e.app for e in entries}))
        tables = {
            name: _table(apps, [e for e in entries if e.hardware == name], coefficients[name]) for name in coefficients
        }
        if first_run == "estimate":
            tables = {name: _completed(name, tables) for name in tables}
        for i, app in enumerate(apps):
            built = self.binaries(app)
            for name in tables:
                if built and name not in built:
                    for metric in METRICS:
                        getattr(tables[name], metric)[i] = np.nan
        return apps, tables

    def record_misfit(self, misfit: Misfit) -> bool:
        """Record a misnamed job. Returns False if this job is recorded already; the first record stays.

        A job is checked again in every round while it runs, and must count once.
        """
        values = asdict(misfit)
        try:
            with self.engine.begin() as connection:
                connection.execute(insert(MISFIT).values(**values))
        except IntegrityError:
            return False
        return True

    def misfits(self, user: str, since_s: float = 0.0) -> list[Misfit]:
        """Return a user's misnamed jobs detected at or after ``since_s`` (seconds since the epoch), oldest first."""
        query = select(MISFIT).where(MISFIT.c.user == user, MISFIT.c.time_s >= since_s)
        with self.engine.connect() as connection:
            rows = connection.execute(query.order_by(MISFIT.c.time_s, MISFIT.c.job_id)).mappings()
            return [Misfit(**row) for row in rows]

    def consequences(self, ladder: Ladder, now_s: float) -> dict[str, Consequence]:
        """Return what follows for each user with misnamed jobs within the ladder's window before ``now_s``.

        ``model.app_check`` applies it: ``behind`` gives the users of the order part ``penalised``.
        """
        count = func.count()
        query = select(MISFIT.c.user, count).where(MISFIT.c.time_s > now_s - ladder.window_s, MISFIT.c.time_s <= now_s)
        with self.engine.connect() as connection:
            found = connection.execute(query.group_by(MISFIT.c.user)).all()
        return {str(user): ladder.consequence(int(misfits)) for user, misfits in found}


def runs_of(rows: Accounting, hardware: str) -> list[AppRun]:
    """Convert the rows of an ``eacct`` file to runs on one hardware configuration.

    ``eacct`` does not print where a job ran, so the caller states it. Rows without a mean frequency are left out: EAR
    did not measure them.
    """
    m = rows.metrics
    columns = (rows.app, rows.frequency_hz, m.time_s, m.power_w, m.cpi, m.tpi)
    return [
        AppRun(str(app), hardware, *(float(v) for v in figures))
        for app, *figures in zip(*columns, strict=True)
        if np.isfinite(figures[0])
    ]


def _require_positive(run: AppRun) -> None:
    """Check a run before it is averaged: one NaN or zero would spoil its row for ever.

    Raises: InputError with the application, the hardware configuration and the figure. TPI may be 0 (a job that stays
    in its caches); the other metrics may not.
    """
    for name in ("frequency_hz", "time_s", "power_w", "cpi"):
        value = getattr(run, name)
        if not (np.isfinite(value) and value > 0):
            raise InputError(f"{name} {value} is not a positive number", where=f"{run.app} on {run.hardware}")
    if not (np.isfinite(run.tpi) and run.tpi >= 0):
        raise InputError(f"tpi {run.tpi} is not a number of 0 or more", where=f"{run.app} on {run.hardware}")


def _at_nominal(run: AppRun, coefficients: Coefficients | None) -> AppRun | None:
    """Project a run to the nominal frequency with EAR's model (paper 1, equations 1 to 3).

    Without coefficients the run is returned unchanged. Returns None if the run's frequency is not near a P-state, or
    the coefficients do not cover it.
    """
    if coefficients is None:
        return run
    near = coefficients.frequency_hz[int(np.argmin(np.abs(coefficients.frequency_hz - run.frequency_hz)))]
    if abs(near - run.frequency_hz) > _STEP_HZ:
        return None
    seen = Signatures.of(run.time_s, run.power_w, run.cpi, run.tpi)
    try:
        there = at_frequency(coefficients, seen, float(near), coefficients.nominal_hz)
    except InputError:
        return None
    figures = {name: float(getattr(there, name)[0]) for name in METRICS}
    return AppRun(run.app, run.hardware, coefficients.nominal_hz, **figures)


def _table(apps: tuple[str, ...], entries: list[Entry], coefficients: Coefficients) -> Signatures:
    """Return the metrics of ``apps`` at the nominal frequency, NaN where there is no row. Shapes (len(apps),).

    A row may have been learned at another frequency, before the site had coefficients; it is projected here.
    """
    columns = np.full((len(METRICS), len(apps)), np.nan)
    for e in entries:
        run = AppRun(e.app, e.hardware, e.frequency_hz, e.time_s, e.power_w, e.cpi, e.tpi)
        nominal = _at_nominal(run, coefficients)
        if nominal is not None:
            columns[:, apps.index(e.app)] = [getattr(nominal, name) for name in METRICS]
    return Signatures(*columns)


def _completed(name: str, tables: Mapping[str, Signatures]) -> Signatures:
    """Fill the gaps of one configuration's table from the other configurations.

    The others are tried in the order of ``tables``; the first that knows an application fills its gap. At least one
    application must have run on both configurations, since the ratio between them is what scales the metrics.
    """
    here = tables[name]
    columns = {metric: getattr(here, metric).copy() for metric in METRICS}
    for other, known in tables.items():
        gap = np.isnan(columns["time_s"]) & np.isfinite(known.time_s)
        both = np.isfinite(here.time_s) & np.isfinite(known.time_s)
        if other == name or not gap.any() or not both.any():
            continue
        guess = estimate_elsewhere(known, here, known)
        for metric in METRICS:
            columns[metric][gap] = getattr(guess, metric)[gap]
    return Signatures(**columns)
