"""Files that a policy's row names: tables that parts read, and users' own parts.

A part lists in ``reads`` which of its options may name files. What such an option is, follows from its name::

    table       CSV of watts by application and unit (formats.unit_factors)
    profiles    { coefficients = "c.csv", apps = "a.csv" }: EAR's coefficients of each partition, and the metrics
                of its applications; every configuration in the first file has a partition's name
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from wattqueue.errors import PolicyError
from wattqueue.formats.ear.profiles import read_profiles_csv
from wattqueue.formats.unit_factors import read_unit_factors
from wattqueue.model.app_profiles import AppProfiles
from wattqueue.model.unit_table import UnitTable


def _table(value: Any) -> UnitTable | None:
    """Return a table of unit factors, None where the option names no file."""
    return read_unit_factors(Path(value)) if isinstance(value, str) else None


def _profiles(value: Any) -> AppProfiles | None:
    """Return application profiles, None where the option is no table. Raises: PolicyError for other keys."""
    if isinstance(value, str):
        raise PolicyError(
            f"{value!r} is one file, and profiles need two", hint='{ coefficients = "c.csv", apps = "a.csv" }'
        )
    if not isinstance(value, Mapping):
        return None
    if set(value) != {"coefficients", "apps"} or not all(isinstance(name, str) for name in value.values()):
        raise PolicyError("must name two files", hint='{ coefficients = "c.csv", apps = "a.csv" }')
    return read_profiles_csv(Path(value["coefficients"]), Path(value["apps"]), ())


READERS: dict[str, Callable[[Any], Any]] = {"table": _table, "profiles": _profiles}
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
    if isinstance(value, Mapping):
        return {key: with_absolute_paths(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_absolute_paths(inner) for inner in value]
    if not isinstance(value, str) or not files_in(value):
        return value
    path = value.partition(":")[0]
    return str(Path(path).absolute()) + value.removeprefix(path)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in nested tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)
