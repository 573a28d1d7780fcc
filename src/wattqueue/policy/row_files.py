"""Files that a policy's row names: tables that parts read, and users' own parts.

A part lists in ``reads`` which of its options may name files. What such an option is, follows from its name::

    table       CSV of watts by application and unit (formats.unit_factors)
    budgets     TOML of budgets (formats.budgets)
    prices      CSV of times and prices, or carbon intensities (formats.series)
    profiles    { coefficients = "c.csv", apps = "a.csv" }: EAR's coefficients of each partition, and the metrics
                of its applications; every configuration in the first file has a partition's name.
                { coefficients = "c.csv", database = "apps.db" }: the metrics that the application database holds,
                a file or a URL; what a URL holds is not recorded with a run
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattqueue.errors import InputError, PolicyError
from wattqueue.model.signals import Series
from wattqueue.policy.rows import map_texts

if TYPE_CHECKING:
    from wattqueue.model.app_profiles import AppProfiles
    from wattqueue.model.budgets import Budget
    from wattqueue.model.unit_table import UnitTable


def _table(value: Any) -> UnitTable | None:
    """Return a table of unit factors, None where the option names no file."""
    from wattqueue.formats.unit_factors import read_unit_factors

    return read_unit_factors(Path(value)) if isinstance(value, str) else None


def _profiles(value: Any) -> AppProfiles | None:
    """Return application profiles, None where the option is no table. Raises: PolicyError for other keys."""
    from wattqueue.formats.ear.files import read_profiles_csv

    hint = '{ coefficients = "c.csv", apps = "a.csv" }, or database = "apps.db" in the place of apps'
    if isinstance(value, str):
        raise PolicyError(f"{value!r} is one file, and profiles need two", hint=hint)
    if not isinstance(value, Mapping):
        return None
    named = set(value) in ({"coefficients", "apps"}, {"coefficients", "database"})
    if not named or not all(isinstance(name, str) for name in value.values()):
        raise PolicyError("must name two files", hint=hint)
    coefficients = Path(value["coefficients"])
    if "apps" in value:
        return read_profiles_csv(coefficients, Path(value["apps"]), ())
    return _of_database(value["database"], coefficients)


def _of_database(url: str, coefficients: Path) -> AppProfiles:
    """Return the profiles of an application database, those that are missing estimated as a live controller does.

    Raises: InputError for a database that cannot be used, or knows no application of these coefficients.
    """
    from wattqueue.formats.ear.files import read_coefficients_csv
    from wattqueue.store.applications import ApplicationDatabase  # sqlalchemy: for policies that name a database only

    database = ApplicationDatabase.open(url, make=False)
    try:
        found = database.profiles(read_coefficients_csv(coefficients))
    finally:
        database.engine.dispose()
    if not found.apps:
        raise InputError("no application has coefficients for this hardware", where=url)
    return found


def _prices(value: Any) -> Series | None:
    """Return a series of prices, None where the option names no file. Raises: InputError."""
    from wattqueue.formats.series import read_steps

    if not isinstance(value, str):
        return None
    rows = read_steps(Path(value))
    return Series(rows.time_s, rows.value)


def _budgets(value: Any) -> tuple[Budget, ...] | None:
    """Return budgets, None where the option names no file. Raises: InputError."""
    from wattqueue.formats.budgets import read_budgets

    return read_budgets(Path(value)) if isinstance(value, str) else None


READERS: dict[str, Callable[[Any], Any]] = {
    "table": _table,
    "profiles": _profiles,
    "prices": _prices,
    "budgets": _budgets,
}
"""Reader of each option that may name files; None where a value names none."""


def read_option(name: str, value: Any, where: str) -> Any:
    """Return the content of the files that an option names, or the value itself where it names none.

    Raises: PolicyError for a table with other keys; InputError for a file that cannot be used.
    """
    try:
        found = READERS[name](value)
    except PolicyError as error:
        raise PolicyError(f"{name}: {error.what}", where=where, hint=error.hint) from None
    return value if found is None else found


def files_in(row: Any) -> list[Path]:
    """Return the files that a row names, users' parts and tables alike, each once, in the order of the row."""
    names = (Path(text.partition(":")[0]) for text in _texts(row))
    return list(dict.fromkeys(path for path in names if path.suffix and path.is_file()))


def with_absolute_paths(value: Any) -> Any:
    """Return nested tables and lists with the absolute paths of all files, which processes elsewhere can find."""
    return map_texts(value, _absolute)


def _absolute(text: str) -> str:
    """Return a text with the absolute path of the file that it names; other texts stay as they are."""
    path = text.partition(":")[0]
    return str(Path(path).absolute()) + text.removeprefix(path) if files_in(text) else text


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in nested tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)
