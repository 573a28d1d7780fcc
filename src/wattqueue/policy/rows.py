"""Rows of policies: found by name, completed by the row that they extend, and composed from single settings.

A row is a table with one value for each of the eight choices (``policies.toml``, or a file of the user's own). It
states what differs from the row that it extends, and from the defaults, EASY, where it extends none. A name may change
single choices of the row that it begins with: ``easy+estimator=history-mean+backfill=conservative`` is EASY with two
other parts. A choice that takes several parts (``policy/lists.py``) is a list in a row, and has commas in a name:
``pas+frequency=frequency-window,least-energy``. Rows are plain data, so that a run can record its policy and be
repeated (``runs/record.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError, PolicyError, one_of
from wattqueue.formats.source import in_folder
from wattqueue.formats.toml import read_toml
from wattqueue.policy.interfaces import AXES, axes_of
from wattqueue.policy.registry import class_from_file

Row = dict[str, Any]
ROW_DEFAULTS: Row = {
    "source": "",
    "estimator": "maximum",
    "runtime": "user-limit",
    "order": "fcfs",
    "frequency": "highest",
    "placement": "lowest",
    "backfill": "easy",
    "ledger": "predicted",
    "controls": [],
}
FOR_MACHINE = "for-machine"
"""A choice that follows from the machine (``policy/for_machine.py``)."""
LEFT_OUT = "left_out"
"""Key of a row that was made for a machine: what the machine could not give."""
NO_CONTROLS = "none"
"""``controls=none``: the setting that takes all controls of a row away."""
GROUP = "wattqueue.policies"
"""Entry points of other packages, each the path of a file of rows: those of the papers' studies are found so."""


def published_rows() -> dict[str, Row]:
    """Return the rows of policies.toml and of other installed packages by name, each with all of its choices."""
    rows = {**_installed_rows(), **_core_rows()}
    return {name: _extended(name, rows, "policies.toml") for name in rows}


@cache
def _core_rows() -> dict[str, Row]:
    """Return the parsed policies.toml, read once a process: a campaign needs it for each of its runs."""
    return read_toml(Path(__file__).with_name("policies.toml"))


@cache
def _installed_rows() -> dict[str, Row]:
    """Return the rows of other packages; looked for once a process, and only where the core has no row of a name."""
    from wattqueue.installed import entry_points_of

    return {name: row for point in entry_points_of(GROUP) for name, row in read_toml(point.load()).items()}


def _published_row(name: str) -> Row | None:
    """Return the row of a published policy with all of its choices; None where there is none."""
    if name in _core_rows():
        return _extended(name, _core_rows(), "policies.toml")
    if name in _installed_rows():
        return _extended(name, {**_installed_rows(), **_core_rows()}, GROUP)
    return None


def find_row(name: str) -> Row:
    """Return the row behind a policy's name or path, with all of its choices.

    Raises: PolicyError for an unknown name or setting, a file that cannot be read, or a class that is not a part.
    """
    base, settings = split_name(name)
    return {**_base_row(base), **_choices(name, settings)}


def composed(name: str, settings: Sequence[str] = ()) -> str:
    """Return the name of a row with some choices changed, in the form that outputs and digests have.

    ``settings``: ``AXIS=PART`` each, or ``AXIS=PART,PART`` for a list, the last one of an axis counting; those of
    ``controls`` add up. What the row has already is left out, the others stand in the order of the eight choices, so
    that one row has one name.

    Raises: PolicyError as ``find_row``.
    """
    base, before = split_name(name)
    row, choices = _base_row(base), _choices(name, [*before, *settings])
    changed = [axis for axis in AXES if axis in choices and choices[axis] != row[axis]]
    return "+".join([base, *(part for axis in changed for part in _settings_of(axis, choices[axis]))])


def with_files(name: str, path: Callable[[str], str]) -> str:
    """Return a name with the files in it, of the row and of single choices, as ``path`` gives them."""
    base, settings = split_name(name)
    pieces = (setting.partition("=") for setting in settings)
    named = (f"{axis}{equals}{','.join(path(part) for part in parts.split(','))}" for axis, equals, parts in pieces)
    return "+".join([path(base), *named])


def _settings_of(axis: str, value: Any) -> list[str]:
    """Return the settings that give a choice its value: one for each control, one for a list of any other choice."""
    if axis != "controls":
        return [f"{axis}={','.join(listed(value))}"]
    return [f"{axis}={part}" for part in listed(value) or [NO_CONTROLS]]


def is_for_machine(row: Row) -> bool:
    """Return whether a choice of a row follows from the machine."""
    return any(listed(row.get(axis)) == [FOR_MACHINE] for axis in AXES)


def listed(value: Any) -> list[Any]:
    """Return the parts of a choice, as a row has them: a name, a table with options, or a list of either."""
    return value if isinstance(value, list) else [value]


def part_names(value: Any) -> str:
    """Return the parts of a choice without their options, in the form that names have: ``a``, or ``a,b`` for a list."""
    return ",".join(str(each["part"] if isinstance(each, Mapping) else each) for each in listed(value))


def split_name(name: str) -> tuple[str, list[str]]:
    """Return the name that a composed one begins with, and its settings."""
    parts = name.split("+")
    first = next((k for k, part in enumerate(parts) if "=" in part), len(parts))
    return "+".join(parts[:first]), parts[first:]


def _choices(name: str, settings: Sequence[str]) -> dict[str, Any]:
    """Return the choices that settings state. Raises: PolicyError for one that is not ``AXIS=PART``."""
    found: dict[str, Any] = {}
    for setting in settings:
        axis, equals, part = (text.strip() for text in setting.partition("="))
        if not equals or not part or "{" in part:
            hint = "write AXIS=PART, such as backfill=conservative; options of a part stand in a row of a file"
            raise PolicyError(f"setting {setting!r} names no part", where=name, hint=hint)
        if axis not in AXES:
            raise PolicyError(f"setting {setting!r}: no choice {axis!r}", where=name, hint=one_of(axis, AXES))
        parts = [each.strip() for each in part.split(",")]
        if not all(parts):
            raise PolicyError(f"setting {setting!r} names no part between two commas", where=name)
        if axis != "controls":
            found[axis] = parts if len(parts) > 1 else part
        elif part == NO_CONTROLS:
            found[axis] = []
        else:
            found[axis] = [*found.get(axis, []), *parts]
    return found


def _base_row(name: str) -> Row:
    """Return the row of a name without settings. Raises: PolicyError as ``find_row``."""
    path, _, inner = name.partition(":")
    if path.endswith(".toml"):
        return _row_of_file(Path(path), inner)
    if path.endswith(".py"):
        axes = axes_of(class_from_file(name))
        if not axes:
            raise PolicyError(
                "this class implements none of the eight interfaces",
                where=name,
                hint="see the guide: write your own part",
            )
        return {**ROW_DEFAULTS, "source": name, axes[0]: [name] if axes[0] == "controls" else name}
    row = _published_row(name)
    if row is None:
        raise PolicyError(f"no policy {name!r}", hint=f"{one_of(name, sorted(published_rows()))}, or a path")
    return row


def _row_of_file(path: Path, inner: str) -> Row:
    """Return a row of a TOML file; the only one where ``inner`` is empty.

    Raises: PolicyError naming the file, and the rows that it has.
    """
    try:
        rows: dict[str, Row] = read_toml(path)
    except InputError as error:
        raise PolicyError(error.what, where=error.where, hint=error.hint) from error
    if not inner and len(rows) == 1:
        inner = next(iter(rows))
    if not inner and rows:
        names = "|".join(rows)
        raise PolicyError(f"{len(rows)} rows in one file", where=path, hint=f"name one: {path}:{names}")
    if not isinstance(rows.get(inner), dict):
        raise PolicyError(f"no row {inner!r}", where=path, hint=f"it has {', '.join(rows) or 'no row'}")
    row = _extended(inner, rows, path)
    return {key: value if key == "source" else map_texts(value, _beside(path)) for key, value in row.items()}


def _beside(path: Path) -> Callable[[str], str]:
    """Return what gives the files that a row of a file names the folder of that file."""
    return lambda text: in_folder(text, path.parent) if Path(text.partition(":")[0]).suffix else text


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return nested tables and lists with every text changed."""
    if isinstance(value, Mapping):
        return {key: map_texts(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [map_texts(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value


def _extended(name: str, rows: dict[str, Row], where: str | Path, named: tuple[str, ...] = ()) -> Row:
    """Return a row completed by those that it extends, rows of the same file or published ones, and by the defaults.

    ``rows`` are those of the file ``where``. A row there may have the name of the published one that it extends.
    ``named`` are the rows that have led to this one.

    Raises: PolicyError for a name that is no row, and for rows that extend each other.
    """
    own = {key: value for key, value in rows[name].items() if key != "extends"}
    base = rows[name].get("extends")
    if base is None:
        return {**ROW_DEFAULTS, **own}
    if not isinstance(base, str):
        raise PolicyError(f"extends = {base!r} is not a name", where=where, hint='write extends = "easy"')
    if base != name and isinstance(rows.get(base), dict):
        chain = (*named, name)
        if base in chain:
            raise PolicyError(f"rows extend each other: {' -> '.join([*chain, base])}", where=where)
        return {**_extended(base, rows, where, chain), **own}
    found = _published_row(base)
    if found is None:
        known = sorted({*rows, *published_rows()} - {name})
        raise PolicyError(f"extends {base!r}, which is no row", where=f"{where}:{name}", hint=one_of(base, known))
    return {**found, **own}
