"""Profiles of applications from EAR's two tables: coefficients of each module, and metrics of the applications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats.ear.files import read_apps_csv, read_coefficients_csv
from wattqueue.model.app_profiles import AppProfiles, ear_profiles
from wattqueue.model.ear import Coefficients, Signatures


@dataclass(frozen=True, slots=True, eq=False)
class EarTables:
    """Coefficients and applications' metrics, by module, of files that belong together."""

    apps: tuple[str, ...]
    coefficients: dict[str, Coefficients]
    metrics: dict[str, Signatures]
    """Of the modules that have run applications; at the nominal frequency, one row per application."""

    def profiles(self) -> AppProfiles:
        """Return the profiles by equations 1 to 3 of paper 1."""
        return ear_profiles(self.apps, self.coefficients, self.metrics)


def read_tables_csv(coefficients: Path, apps: Path, modules: Sequence[str]) -> EarTables:
    """Return both tables of all modules.

    Args:
        coefficients: Coefficients of the modules (CSV).
        apps: Metrics of the applications, with the number of their module (CSV).
        modules: Modules that must have coefficients.

    Raises: InputError if a file cannot be used, a module is missing, or the files do not belong together.
    """
    tables = read_coefficients_csv(coefficients)
    missing = [name for name in modules if name not in tables]
    if missing:
        raise InputError(f"no coefficients of module {', '.join(missing)}", where=coefficients)
    names, metrics = read_apps_csv(apps)
    if not set(metrics) <= set(range(len(tables))):
        raise InputError(f"module_index {max(metrics)}: the coefficients have {len(tables)} modules", where=apps)
    return EarTables(names, tables, {module: metrics[i] for i, module in enumerate(tables) if i in metrics})


def read_profiles_csv(coefficients: Path, apps: Path, modules: Sequence[str]) -> AppProfiles:
    """Return profiles of all modules that have coefficients and metrics; arguments and errors of ``read_tables_csv``.

    Reference: paper 1, equations 1 to 3.
    """
    return read_tables_csv(coefficients, apps, modules).profiles()
