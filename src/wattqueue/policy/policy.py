"""A policy is seven parts; its row in policies.toml names them."""

from __future__ import annotations

import inspect
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from wattqueue.errors import PolicyError
from wattqueue.parts import contracts
from wattqueue.policy.registry import AXES, axes_of, class_from_file, part_class

Row = dict[str, Any]
ROW_DEFAULTS: Row = {
    "source": "",
    "estimator": "naive",
    "order": "fcfs",
    "frequency": "highest",
    "placement": "lowest",
    "backfill": "easy",
    "ledger": "predicted",
    "controls": [],
}


@dataclass(frozen=True)
class Policy:
    """One value for each of the seven choices, and the row that they were made from."""

    name: str
    estimator: contracts.Estimator
    order: contracts.Order
    frequency: contracts.Frequency
    placement: contracts.Placement
    backfill: contracts.Backfill | contracts.CustomBackfill
    ledger: contracts.Ledger
    controls: tuple[contracts.Control, ...] = ()
    row: Row = field(default_factory=dict)


def published_rows() -> dict[str, Row]:
    """The rows of policies.toml by name."""
    return {name: dict(row) for name, row in _published().items()}


@cache
def _published() -> dict[str, Row]:
    """Read once a process: a campaign asks for each of its runs."""
    return tomllib.loads((files("wattqueue.policy") / "policies.toml").read_text())


def load_policy(name: str, **overrides: Any) -> Policy:
    """A published row by name, ``my.toml:row``, or EASY with one part replaced by ``my.py:MyPart``.

    ``overrides`` replaces single choices (``estimator="oracle-mean"``).

    Raises: PolicyError naming the row and the choice that is wrong.
    """
    row = {**ROW_DEFAULTS, **find_row(name)}
    row |= {axis: value for axis, value in overrides.items() if value is not None}
    return policy_from_row(name, row)


def find_row(name: str) -> Row:
    """The row behind a policy's name or path."""
    path, _, inner = name.partition(":")
    if path.endswith(".toml"):
        return _row_from_toml(Path(path), inner)
    if path.endswith(".py"):
        axes = axes_of(class_from_file(name))
        if not axes:
            raise PolicyError("this class fits no axis", where=name, mend="see: write your own part")
        return {"source": name, axes[0]: [name] if axes[0] == "controls" else name}
    rows = published_rows()
    if name not in rows:
        raise PolicyError(f"no policy {name!r}", mend=f"one of {', '.join(sorted(rows))}, or a path")
    return rows[name]


def _row_from_toml(path: Path, inner: str) -> Row:
    try:
        rows: dict[str, Row] = tomllib.loads(path.read_text())
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}", where=path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PolicyError(f"not TOML: {error}", where=path) from error
    if not inner and len(rows) == 1:
        inner = next(iter(rows))
    if not inner and rows:
        names = "|".join(rows)
        raise PolicyError(f"{len(rows)} rows in one file", where=path, mend=f"name one: {path}:{names}")
    if not isinstance(rows.get(inner), dict):
        raise PolicyError(f"no row {inner!r}", where=path, mend=f"it has {', '.join(rows) or 'no row'}")
    return rows[inner]


def policy_from_row(name: str, row: Row) -> Policy:
    """Build the seven parts of a row."""
    unknown = set(row) - set(ROW_DEFAULTS)
    if unknown:
        raise PolicyError(f"unknown key {sorted(unknown)[0]!r}", where=name, mend=f"one of {', '.join(ROW_DEFAULTS)}")
    parts: dict[str, Any] = {axis: build_part(name, axis, row[axis]) for axis in AXES if axis != "controls"}
    listed = row["controls"] if isinstance(row["controls"], list) else [row["controls"]]
    controls = tuple(build_part(name, "controls", value) for value in listed)
    return Policy(name, **parts, controls=controls, row=row)


def build_part(policy: str, axis: str, value: Any) -> Any:
    """One part from its name, or from a table with its options; a ready part passes through."""
    if isinstance(value, int | float | list):
        raise PolicyError(f"{axis} is {value!r}, no part", where=policy, mend='write "name", or { part = "name", ... }')
    if not isinstance(value, str | dict):
        return value
    options = dict(value) if isinstance(value, dict) else {}
    name = options.pop("part", None) if isinstance(value, dict) else value
    if not isinstance(name, str):
        raise PolicyError(f"{axis} needs a part", where=policy, mend='write { part = "name", ... }')
    found = part_class(axis, name)
    try:
        return found(**options)
    except TypeError as error:
        takes = ", ".join(inspect.signature(found).parameters) or "no options"
        raise PolicyError(f"{axis} {name!r}: {error}", where=policy, mend=f"it takes {takes}") from error
