"""EAR's files: the binary coefficient file, our CSV of coefficients, and a CSV of application metrics."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats._aside import aside
from wattqueue.formats._source import opened, shown
from wattqueue.model.ear import COEFFICIENT_NAMES, Coefficients, Metrics

RECORD = np.dtype(
    {
        "names": ["pstate_ref", "pstate", "available", *COEFFICIENT_NAMES],
        "formats": ["<u8", "<u8", "<u4", *["<f8"] * 6],
        # The C compiler pads the 4-byte ``available`` so that the doubles stand on multiples of 8.
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56, 64],
        "itemsize": 72,
    }
)
"""One record of EAR's ``coefficient_t`` on x86-64; frequencies in kHz."""

COEFFICIENT_HEADER = ("module", "f_ref_ghz", "f_target_ghz", "available", *COEFFICIENT_NAMES)
APPS_HEADER = ("app_id", "module_index", "time_s", "power_w", "cpi", "tpi")


def read_coefficients_binary(path: Path) -> Coefficients:
    """EAR's own coefficient file: one hardware configuration.

    Raises: InputError for a size that is no multiple of 72 bytes, or values that cannot be.
    """
    data = _read_bytes(path)
    if not data or len(data) % RECORD.itemsize:
        raise InputError(
            f"{len(data)} bytes are not records of {RECORD.itemsize}",
            where=path,
            mend="give a coefficient file that EAR wrote on x86-64",
        )
    rows = np.frombuffer(data, RECORD)
    return _of_pairs(path, rows["pstate_ref"] * 1e3, rows["pstate"] * 1e3, rows["available"] != 0, _columns(rows))


def write_coefficients_binary(path: Path, coefficients: Coefficients) -> None:
    """Write EAR's coefficient file; pairs without coefficients become records of zeros.

    Raises: OutputError where the file cannot be written.
    """
    f = len(coefficients.frequency_hz)
    rows = np.zeros(f * f, RECORD)
    khz = np.round(coefficients.frequency_hz / 1e3).astype(np.uint64)
    rows["pstate_ref"], rows["pstate"] = np.repeat(khz, f), np.tile(khz, f)
    rows["available"] = coefficients.available.ravel()
    for k, name in enumerate(COEFFICIENT_NAMES):
        rows[name] = np.where(coefficients.available, coefficients.values[:, :, k], 0.0).ravel()
    with aside(path) as part:
        part.write_bytes(rows.tobytes())


def read_coefficients_csv(path: Path) -> dict[str, Coefficients]:
    """Our CSV: coefficients of several hardware configurations, in the order of the file.

    Raises: InputError naming file, line and field.
    """
    groups: dict[str, list[list[float]]] = {}
    for line, row in _csv_rows(path, COEFFICIENT_HEADER):
        numbers = [_number(path, line, name, row[name]) for name in COEFFICIENT_HEADER[1:]]
        groups.setdefault(row["module"], []).append(numbers)
    if not groups:
        raise InputError("no coefficients", where=path)
    tables = {}
    for name, rows in groups.items():
        a = np.array(rows)
        tables[name] = _of_pairs(path, a[:, 0] * 1e9, a[:, 1] * 1e9, a[:, 2] != 0, a[:, 3:])
    return tables


def write_coefficients_csv(path: Path, tables: dict[str, Coefficients]) -> None:
    """Write our CSV; reading it back gives the same tables.

    Raises: OutputError where the file cannot be written.
    """
    lines = [",".join(COEFFICIENT_HEADER)]
    for name, table in tables.items():
        ghz = [f"{f / 1e9:g}" for f in table.frequency_hz]
        for i, ref in enumerate(ghz):
            for j, target in enumerate(ghz):
                values = table.values[i, j] if table.available[i, j] else np.zeros(6)
                cells = [name, ref, target, str(int(table.available[i, j])), *(repr(float(v)) for v in values)]
                lines.append(",".join(cells))
    with aside(path) as part:
        part.write_text("\n".join(lines) + "\n")


def read_apps_csv(path: Path) -> tuple[tuple[str, ...], dict[int, Metrics]]:
    """Metrics by application at the nominal frequency of each hardware configuration.

    The file numbers configurations (``module_index``, from 0, in the order of the coefficient file).
    Returns names of the applications, in the order of the file, and a table for each configuration;
    an application that a configuration has not run is NaN there.

    Raises: InputError naming file, line and field.
    """
    cells: dict[tuple[str, int], list[float]] = {}
    for line, row in _csv_rows(path, APPS_HEADER):
        key = (row["app_id"].strip(), int(_number(path, line, "module_index", row["module_index"])))
        if key in cells:
            raise InputError(f"line {line}: application {key[0]} is there twice for module {key[1]}", where=path)
        cells[key] = [_number(path, line, name, row[name], least=0.0) for name in APPS_HEADER[2:]]
    if not cells:
        raise InputError("no applications", where=path)
    apps = tuple(dict.fromkeys(app for app, _ in cells))
    missing = [np.nan] * 4
    tables = {
        module: Metrics(*np.array([cells.get((app, module), missing) for app in apps]).T)
        for module in sorted({m for _, m in cells})
    }
    return apps, tables


def _columns(rows: Any) -> np.ndarray[Any, Any]:
    return np.column_stack([rows[name] for name in COEFFICIENT_NAMES])


def _of_pairs(path: Path, *columns: Any) -> Coefficients:
    try:
        return Coefficients.of_pairs(*columns)
    except InputError as error:
        raise InputError(error.what, where=path, mend=error.mend) from None


def _read_bytes(path: Path) -> bytes:
    with opened(path) as source:
        return source.read()


def _csv_rows(path: Path, header: tuple[str, ...]) -> Iterable[tuple[int, dict[str, str]]]:
    """Line number and cells of each row."""
    text = _read_bytes(path).decode("utf-8-sig", "replace")
    reader = csv.DictReader(text.splitlines())
    lacking = [name for name in header if name not in (reader.fieldnames or [])]
    if lacking:
        raise InputError(f"line 1: no column {', '.join(lacking)}", where=path, mend=f"header: {','.join(header)}")
    for row in reader:
        if None in row or None in row.values():
            raise InputError(f"line {reader.line_num}: not {len(reader.fieldnames or [])} cells", where=path)
        yield reader.line_num, row


def _number(path: Path, line: int, name: str, cell: str, least: float = -np.inf) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = np.nan
    if not (np.isfinite(value) and value >= least):
        rule = "a number" if least == -np.inf else f"a number of at least {least:g}"
        raise InputError(f"line {line}, field {name}: {shown(cell)} is not {rule}", where=path)
    return value
