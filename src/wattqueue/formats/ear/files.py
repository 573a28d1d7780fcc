"""EAR's files: the binary coefficient file, our CSV of coefficients, and a CSV of application metrics.

EAR (Energy Aware Runtime) predicts time and power at one frequency from a measurement at another with six
coefficients per pair of frequencies. ``model.ear`` holds the formulas; this module reads and writes the tables.

The three files, and who uses them:

- EAR's binary file: one hardware configuration, as ``write_coefficients_binary`` and EAR's own tools write it;
- our CSV of coefficients: several configurations (``module``), which people can read and edit, with
  the header ``module,f_ref_ghz,f_target_ghz,available,A,B,C,D,E,F``;
- our CSV of applications: what each application measured at the nominal frequency of each configuration, with
  the header ``app_id,module_index,time_s,power_w,cpi,tpi``.

In memory all frequencies are in Hz. A table with f frequencies has f x f pairs; ``available`` says for which of them
coefficients were learned. ``tpi`` is memory transactions per instruction, ``cpi`` cycles per instruction.

``read_profiles_csv`` makes profiles of applications from both CSV tables.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.source import opened, shown
from wattqueue.model.bounds import FREQUENCY_HZ
from wattqueue.model.ear import COEFFICIENT_NAMES
from wattqueue.model.plain_numbers import number_of

if TYPE_CHECKING:
    from wattqueue.model.app_profiles import AppProfiles
    from wattqueue.model.ear import Coefficients, Signatures

RECORD = np.dtype(
    {
        "names": ["pstate_ref", "pstate", "available", *COEFFICIENT_NAMES],
        "formats": ["<u8", "<u8", "<u4", *["<f8"] * 6],
        # The C compiler pads the 4-byte ``available`` so that the doubles stand on multiples of 8.
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56, 64],
        "itemsize": 72,
    }
)
"""One record of EAR's ``coefficient_t`` on x86-64, little-endian; frequencies in kHz."""

COEFFICIENT_HEADER = ("module", "f_ref_ghz", "f_target_ghz", "available", *COEFFICIENT_NAMES)
APPS_HEADER = ("app_id", "module_index", "time_s", "power_w", "cpi", "tpi")


def read_coefficients_binary(path: Path) -> Coefficients:
    """Return the coefficients of EAR's own file: one hardware configuration.

    The file may be compressed with gzip. It is an array of C structs without a header, one per pair of frequencies, so
    nothing but its size and the plausibility of its values can show that it is one.

    Raises: InputError for a size that is no multiple of 72 bytes, or values that cannot be.
    """
    data = _read_bytes(path)
    if not data or len(data) % RECORD.itemsize:
        raise InputError(
            f"{len(data)} bytes are not records of {RECORD.itemsize}",
            where=path,
            hint="give a coefficient file that EAR wrote on x86-64",
        )
    rows = np.frombuffer(data, RECORD)
    return _of_pairs(path, rows["pstate_ref"] * 1e3, rows["pstate"] * 1e3, rows["available"] != 0, _columns(rows))


def write_coefficients_binary(path: Path, coefficients: Coefficients) -> None:
    """Write EAR's coefficient file; pairs without coefficients become records of zeros.

    Records are ordered by reference frequency, then by target, in the order of ``frequency_hz``. Frequencies are
    rounded to whole kHz, the unit of the file.

    Raises: OutputError where the file cannot be written.
    """
    from wattqueue.formats.atomic_write import atomic_write

    f = len(coefficients.frequency_hz)
    rows = np.zeros(f * f, RECORD)
    khz = np.round(coefficients.frequency_hz / 1e3).astype(np.uint64)
    rows["pstate_ref"], rows["pstate"] = np.repeat(khz, f), np.tile(khz, f)
    rows["available"] = coefficients.available.ravel()
    for k, name in enumerate(COEFFICIENT_NAMES):
        rows[name] = np.where(coefficients.available, coefficients.values[:, :, k], 0.0).ravel()
    with atomic_write(path) as part:
        part.write_bytes(rows.tobytes())


def read_coefficients_csv(path: Path) -> dict[str, Coefficients]:
    """Return the coefficients of several hardware configurations from our CSV, in the order of the file.

    Keys are the names of the column ``module``. Rows of one configuration need not stand together.

    Raises: InputError naming file, line and field.
    """
    # Rows are collected by configuration first, since one table needs all its pairs at once.
    groups: dict[str, list[list[float]]] = {}
    for line, row in _csv_rows(path, COEFFICIENT_HEADER):
        numbers = [_number(path, line, name, row[name]) for name in COEFFICIENT_HEADER[1:]]
        # Of the numbers, the first two are the frequencies; a figure in Hz or MHz would lie outside the limit.
        for name, ghz in zip(COEFFICIENT_HEADER[1:3], numbers, strict=False):
            FREQUENCY_HZ.require(ghz * 1e9, name, where=f"{path}:{line}")
        groups.setdefault(row["module"], []).append(numbers)
    if not groups:
        raise InputError("no coefficients", where=path, hint="write one row per pair of frequencies")
    tables = {}
    for name, rows in groups.items():
        a = np.array(rows)
        tables[name] = _of_pairs(path, a[:, 0] * 1e9, a[:, 1] * 1e9, a[:, 2] != 0, a[:, 3:])
    return tables


def write_coefficients_csv(path: Path, tables: dict[str, Coefficients]) -> None:
    """Write our CSV; reading it back gives the same tables.

    Values are written with ``repr``, so that no digit is lost; frequencies in GHz, as people write them. Every pair has
    a row; those without coefficients have ``available`` 0 and six zeros.

    Raises: OutputError where the file cannot be written.
    """
    from wattqueue.formats.atomic_write import atomic_write

    lines = [",".join(COEFFICIENT_HEADER)]
    for name, table in tables.items():
        ghz = [f"{f / 1e9:g}" for f in table.frequency_hz]
        for i, ref in enumerate(ghz):
            for j, target in enumerate(ghz):
                values = table.values[i, j] if table.available[i, j] else np.zeros(6)
                cells = [name, ref, target, str(int(table.available[i, j])), *(repr(float(v)) for v in values)]
                lines.append(",".join(cells))
    with atomic_write(path) as part:
        part.write_text("\n".join(lines) + "\n")


def read_apps_csv(path: Path) -> tuple[tuple[str, ...], dict[int, Signatures]]:
    """Return metrics by application at the nominal frequency of each hardware configuration.

    The file numbers configurations (``module_index``, from 0, in the order of the coefficient file). The result is
    the names of the applications, in the order of the file, and a table for each configuration; an application that
    a configuration has not run is NaN there.

    Raises: InputError naming file, line and field.
    """
    from wattqueue.model.ear import Signatures

    cells: dict[tuple[str, int], list[float]] = {}
    for line, row in _csv_rows(path, APPS_HEADER):
        key = (row["app_id"].strip(), int(_number(path, line, "module_index", row["module_index"])))
        if key in cells:
            raise InputError(
                f"application {key[0]} occurs twice for module {key[1]}", where=f"{path}:{line}", hint="keep one"
            )
        cells[key] = [_number(path, line, name, row[name], least=0.0) for name in APPS_HEADER[2:]]
    if not cells:
        raise InputError("no applications", where=path, hint="write one row per application")
    apps = tuple(dict.fromkeys(app for app, _ in cells))
    # Time, watts, CPI and TPI of an application that a configuration has not run.
    missing = [np.nan] * 4
    tables = {
        module: Signatures(*np.array([cells.get((app, module), missing) for app in apps]).T)
        for module in sorted({m for _, m in cells})
    }
    return apps, tables


def _columns(rows: Any) -> np.ndarray[Any, Any]:
    """Return the six coefficients of each record. Shape (k, 6)."""
    return np.column_stack([rows[name] for name in COEFFICIENT_NAMES])


def _of_pairs(path: Path, *columns: Any) -> Coefficients:
    """Return coefficients from columns of pairs, with the file's name in any error of the model.

    ``columns`` are those of ``Coefficients.of_pairs``: reference and target frequency in Hz, availability, values.

    Raises: InputError for a pair that occurs twice, and for whatever else the model refuses.
    """
    from wattqueue.model.ear import Coefficients

    try:
        return Coefficients.of_pairs(*columns)
    except InputError as error:
        raise InputError(error.what, where=path, hint=error.hint) from None


def _read_bytes(path: Path) -> bytes:
    """Return the bytes of a file, plain or gzip. Raises: InputError."""
    with opened(path) as source:
        return source.read()


def _csv_rows(path: Path, header: tuple[str, ...]) -> Iterable[tuple[int, dict[str, str]]]:
    """Yield line number and cells of each row.

    Raises: InputError for missing columns of ``header``, and for a row with too few or too many cells.
    """
    # Spreadsheet programs put a byte order mark first, which would become part of the first column's name.
    text = _read_bytes(path).decode("utf-8-sig", "replace")
    reader = csv.DictReader(text.splitlines())
    lacking = [name for name in header if name not in (reader.fieldnames or [])]
    if lacking:
        raise InputError(f"no column {', '.join(lacking)}", where=f"{path}:1", hint=f"header: {','.join(header)}")
    for row in reader:
        # DictReader collects surplus cells under the key None, and gives None for cells that are missing.
        if None in row or None in row.values():
            raise InputError(
                f"not {len(reader.fieldnames or [])} cells", where=f"{path}:{reader.line_num}", hint="correct the line"
            )
        yield reader.line_num, row


def _number(path: Path, line: int, name: str, cell: str, least: float = -np.inf) -> float:
    """Return a cell as a finite number of at least ``least``. Raises: InputError naming file, line and field."""
    value = number_of(cell)
    if not (np.isfinite(value) and value >= least):
        rule = "a number" if least == -np.inf else f"a number of at least {least:g}"
        raise InputError(f"field {name}: {shown(cell)} is not {rule}", where=f"{path}:{line}", hint="correct the field")
    return value


@dataclass(frozen=True, slots=True, eq=False)
class EarTables:
    """Coefficients and applications' metrics, by module, of files that belong together."""

    apps: tuple[str, ...]
    coefficients: dict[str, Coefficients]
    metrics: dict[str, Signatures]
    """Of the modules that have run applications; at the nominal frequency, one row per application."""

    def profiles(self) -> AppProfiles:
        """Return the profiles by equations 1 to 3 of paper 1."""
        from wattqueue.model.app_profiles import ear_profiles

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
