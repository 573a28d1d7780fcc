"""Profiles of applications from EAR's two tables: coefficients of each module, and metrics of the applications."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats.ear.files import read_apps_csv, read_coefficients_csv
from wattqueue.model.app_profiles import AppProfiles, ear_profiles


def read_profiles_csv(coefficients: Path, apps: Path, modules: Sequence[str]) -> AppProfiles:
    """Return profiles of all modules that have coefficients and metrics, by equations 1 to 3 of paper 1.

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
    return ear_profiles(names, tables, {module: metrics[i] for i, module in enumerate(tables) if i in metrics})
