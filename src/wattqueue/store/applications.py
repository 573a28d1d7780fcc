"""The application database: what applications take and draw, built from finished runs; and users' misfits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, Engine, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from wattqueue.errors import InputError
from wattqueue.formats.eacct import Accounting
from wattqueue.model.app_profiles import Profiles, ear_profiles
from wattqueue.model.ear import Coefficients, Metrics, at_frequency
from wattqueue.model.ear_learning import estimate_elsewhere
from wattqueue.store.database import open_database
from wattqueue.store.migrations import upgrade
from wattqueue.store.tables import BINARY, ENTRY, MISFIT

METRICS = ("time_s", "power_w", "cpi", "tpi")
_STEP_HZ = 0.05e9
"""A run's mean frequency counts for the P-state this near: EAR reports 2.38 GHz for one of 2.4."""


@dataclass(frozen=True, slots=True)
class AppRun:
    """One finished run: means over its nodes, and the mean frequency that it ran at."""

    app: str
    hardware: str
    frequency_hz: float
    time_s: float
    power_w: float
    cpi: float
    tpi: float


@dataclass(frozen=True, slots=True)
class Entry:
    """Means over ``runs`` runs at one frequency (the nominal one, where there are coefficients)."""

    app: str
    hardware: str
    frequency_hz: float
    time_s: float
    power_w: float
    cpi: float
    tpi: float
    runs: int


@dataclass(frozen=True, slots=True)
class Misfit:
    """A job that was not what it claimed to be; ``found`` is empty where it fits no known application."""

    job_id: str
    user: str
    time_s: float
    claimed: str
    found: str
    distance: float


class ApplicationDatabase:
    """(application, hardware configuration) -> metrics, in SQLite or PostgreSQL.

    Each write is one statement that the database applies to the row as it then is, so concurrent
    writers lose nothing. Reference: paper 1, section 3.2.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._insert: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[engine.dialect.name]

    @classmethod
    def open(cls, url: str | Path, *, make: bool = True) -> ApplicationDatabase:
        """The database of a URL or an SQLite file, its schema brought up to date.

        Raises: InputError for what is no database of ours, or without ``make`` for an SQLite file that is not there.
        """
        engine = open_database(url, make=make)
        upgrade(engine)
        return cls(engine)

    def learn(self, runs: Iterable[AppRun], coefficients: Mapping[str, Coefficients] | None = None) -> int:
        """Add finished runs to their entries' means; how many were used.

        With coefficients a run at another frequency is first projected to the nominal one; a run that
        cannot be (no coefficients for its frequency, or a mean between two P-states) is left out, as is one
        at another frequency than its entry where there are none.

        Raises: InputError for figures that are not positive numbers.
        """
        used = 0
        with self.engine.begin() as connection:
            # In one order, so that writers who hold several rows never wait for one another in a circle.
            for run in sorted(runs, key=lambda r: (r.app, r.hardware)):
                _require_positive(run)
                nominal = _at_nominal(run, (coefficients or {}).get(run.hardware))
                used += nominal is not None and self._add(connection, nominal)
        return used

    def _add(self, connection: Connection, run: AppRun) -> int:
        values = {name: getattr(run, name) for name in ("app", "hardware", "frequency_hz", *METRICS)}
        statement = self._insert(ENTRY).values(**values, runs=1)
        moved = {
            name: ENTRY.c[name] + (statement.excluded[name] - ENTRY.c[name]) / (ENTRY.c.runs + 1.0) for name in METRICS
        }
        statement = statement.on_conflict_do_update(
            index_elements=[ENTRY.c.app, ENTRY.c.hardware],
            set_={**moved, "runs": ENTRY.c.runs + 1},
            where=func.abs(ENTRY.c.frequency_hz - statement.excluded.frequency_hz) < _STEP_HZ,
        )
        # Rows come back only where something was written; not every driver counts them.
        return int(connection.execute(statement.returning(ENTRY.c.runs)).first() is not None)

    def entry(self, app: str, hardware: str) -> Entry | None:
        """One entry, None where there is none."""
        found = self._entries(ENTRY.c.app == app, ENTRY.c.hardware == hardware)
        return found[0] if found else None

    def entries(self) -> list[Entry]:
        """All entries, by application and hardware."""
        return self._entries()

    def _entries(self, *conditions: Any) -> list[Entry]:
        query = select(ENTRY).where(*conditions).order_by(ENTRY.c.app, ENTRY.c.hardware)
        with self.engine.connect() as connection:
            return [Entry(**row) for row in connection.execute(query).mappings()]

    def forget(self, app: str, hardware: str) -> bool:
        """Drop an entry (the application changed); whether there was one."""
        with self.engine.begin() as connection:
            gone = delete(ENTRY).where(ENTRY.c.app == app, ENTRY.c.hardware == hardware)
            return connection.execute(gone.returning(ENTRY.c.app)).first() is not None

    def set_binary(self, app: str, hardware: str, path: str) -> None:
        """Name the executable of an application on a hardware configuration."""
        statement = self._insert(BINARY).values(app=app, hardware=hardware, path=path)
        statement = statement.on_conflict_do_update(
            index_elements=[BINARY.c.app, BINARY.c.hardware], set_={"path": statement.excluded.path}
        )
        with self.engine.begin() as connection:
            connection.execute(statement)

    def binaries(self, app: str) -> dict[str, str]:
        """Executable by hardware configuration; empty: one binary fits all."""
        query = select(BINARY.c.hardware, BINARY.c.path).where(BINARY.c.app == app).order_by(BINARY.c.hardware)
        with self.engine.connect() as connection:
            return {str(hardware): str(path) for hardware, path in connection.execute(query)}

    def profiles(self, coefficients: Mapping[str, Coefficients], first_run: str = "estimate") -> Profiles:
        """Profiles of every application on every hardware configuration that has coefficients.

        Where an application has not run, ``estimate`` takes its figures from another configuration's
        entry and the applications that ran on both; ``trial`` leaves them unknown, for the estimator to
        make a trial run. Where it has binaries, but none for the configuration, it is not offered at all.

        Raises: InputError for another ``first_run``.
        Reference: paper 1, sections 3.2 and 3.4.
        """
        if first_run not in ("estimate", "trial"):
            raise InputError(f"first_run {first_run!r}", mend="use estimate or trial")
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
        return ear_profiles(apps, coefficients, tables, "application database")

    def record_misfit(self, misfit: Misfit) -> bool:
        """Put a misfit on its user's record; False where the job stands there already."""
        values = {name: getattr(misfit, name) for name in Misfit.__slots__}
        statement = self._insert(MISFIT).values(**values).on_conflict_do_nothing(index_elements=[MISFIT.c.job_id])
        with self.engine.begin() as connection:
            return connection.execute(statement.returning(MISFIT.c.job_id)).first() is not None

    def misfits(self, user: str, since_s: float = 0.0) -> list[Misfit]:
        """A user's misfits at or after a time, in order."""
        query = select(MISFIT).where(MISFIT.c.user == user, MISFIT.c.time_s >= since_s)
        with self.engine.connect() as connection:
            rows = connection.execute(query.order_by(MISFIT.c.time_s, MISFIT.c.job_id)).mappings()
            return [Misfit(**row) for row in rows]


def runs_of(rows: Accounting, hardware: str) -> list[AppRun]:
    """The rows of an ``eacct`` file as runs on one hardware configuration; those without a frequency are left out."""
    m = rows.metrics
    columns = (rows.app, rows.frequency_hz, m.time_s, m.power_w, m.cpi, m.tpi)
    return [
        AppRun(str(app), hardware, *(float(v) for v in figures))
        for app, *figures in zip(*columns, strict=True)
        if np.isfinite(figures[0])
    ]


def _require_positive(run: AppRun) -> None:
    for name in ("frequency_hz", "time_s", "power_w", "cpi"):
        value = getattr(run, name)
        if not (np.isfinite(value) and value > 0):
            raise InputError(f"{name} {value} is not a positive number", where=f"{run.app} on {run.hardware}")
    if not (np.isfinite(run.tpi) and run.tpi >= 0):
        raise InputError(f"tpi {run.tpi} is not a number of 0 or more", where=f"{run.app} on {run.hardware}")


def _at_nominal(run: AppRun, coefficients: Coefficients | None) -> AppRun | None:
    """The run as it would have been at the nominal frequency; None where that cannot be told."""
    if coefficients is None:
        return run
    near = coefficients.frequency_hz[int(np.argmin(np.abs(coefficients.frequency_hz - run.frequency_hz)))]
    if abs(near - run.frequency_hz) > _STEP_HZ:
        return None
    seen = Metrics.of(run.time_s, run.power_w, run.cpi, run.tpi)
    try:
        there = at_frequency(coefficients, seen, float(near), coefficients.nominal_hz)
    except InputError:
        return None
    figures = {name: float(getattr(there, name)[0]) for name in METRICS}
    return AppRun(run.app, run.hardware, coefficients.nominal_hz, **figures)


def _table(apps: tuple[str, ...], entries: list[Entry], coefficients: Coefficients) -> Metrics:
    """Metrics of ``apps`` at the nominal frequency, NaN where there is no entry."""
    columns = np.full((len(METRICS), len(apps)), np.nan)
    for e in entries:
        run = AppRun(e.app, e.hardware, e.frequency_hz, e.time_s, e.power_w, e.cpi, e.tpi)
        nominal = _at_nominal(run, coefficients)
        if nominal is not None:
            columns[:, apps.index(e.app)] = [getattr(nominal, name) for name in METRICS]
    return Metrics(*columns)


def _completed(name: str, tables: Mapping[str, Metrics]) -> Metrics:
    """One configuration's table with its gaps estimated from the others, in their order."""
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
    return Metrics(**columns)
