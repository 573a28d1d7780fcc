"""Machines in TOML, both ways, and the catalogue of the papers' machines (``machines/*.toml``)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattqueue import SCHEMA_VERSION
from wattqueue.errors import MachineError, WattQueueError
from wattqueue.formats._aside import aside
from wattqueue.formats._schema import first_finding
from wattqueue.formats._toml import dumps, read_toml
from wattqueue.model.machine import Machine, Partition

if TYPE_CHECKING:
    from pydantic import ValidationError

CONFIRM = "please confirm"
"""The mark behind a figure that was guessed, not stated."""


def load_machine(name_or_path: str | Path) -> Machine:
    """A machine of the catalogue by its name, or from a TOML file.

    Raises: InputError for a file that cannot be read; MachineError naming file, partition and key.
    """
    text = str(name_or_path)
    if text in catalogue():
        return read_machine(Path(str(files("wattqueue.formats") / "machines" / f"{text}.toml")))
    path = Path(name_or_path)
    if path.suffix == ".toml" or path.exists() or len(path.parts) > 1:
        return read_machine(path)
    close = difflib.get_close_matches(text, catalogue(), 1, 0.5)
    raise MachineError(
        f"no machine {text!r} in the catalogue and no such file",
        where="machine",
        mend=(f"did you mean {close[0]}? " if close else "") + f"known: {', '.join(catalogue())}",
    )


@cache
def catalogue() -> tuple[str, ...]:
    """Names of the machines that come with WattQueue."""
    folder = files("wattqueue.formats") / "machines"
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")))


def read_machine(path: Path) -> Machine:
    """A machine from a TOML file whose keys are the fields of Machine and, under ``[[partitions]]``, Partition.

    Raises: InputError for a file that cannot be read; MachineError naming file, partition and key.
    """
    return machine_of(read_toml(path), path)


def machine_of(data: Mapping[str, Any], where: str | Path) -> Machine:
    """A machine from nested dictionaries as TOML gives them. Raises: MachineError naming the key."""
    from pydantic import ValidationError

    from wattqueue.formats._machine_schema import MachineFile

    try:
        checked = MachineFile.model_validate(dict(data)).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise _explained(error, where) from error
    version = checked.pop("schema_version", SCHEMA_VERSION)
    if version > SCHEMA_VERSION:
        raise MachineError(f"schema version {version}", where=where, mend="use a newer WattQueue")
    try:
        partitions = tuple(_partition(row) for row in checked.pop("partitions"))
        return Machine(partitions=partitions, **checked)
    except WattQueueError as error:
        raise MachineError(error.what, where=f"{where}: {error.where}", mend=error.mend) from error


def _partition(row: dict[str, Any]) -> Partition:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
    return Partition(**values)


def machine_data(machine: Machine) -> dict[str, Any]:
    """Every figure of a machine as nested dictionaries, for TOML; what is not stated is None."""
    data = asdict(machine)
    partitions = [row | {"frequencies_hz": list(row["frequencies_hz"])} for row in data.pop("partitions")]
    return {"schema_version": SCHEMA_VERSION, **data, "partitions": partitions}


def machine_toml(machine: Machine, marks: Mapping[str, str] | None = None) -> str:
    """A machine as TOML text. ``marks`` puts comments behind keys: ``{"partitions.0.idle_w": CONFIRM}``."""
    return dumps(machine_data(machine), marks)


def write_machine(path: Path, machine: Machine, marks: Mapping[str, str] | None = None) -> None:
    """Write a machine as a TOML file. Raises: OutputError."""
    with aside(path) as temporary:
        temporary.write_text(machine_toml(machine, marks), encoding="utf-8")


def _explained(error: ValidationError, where: str | Path) -> MachineError:
    """The first of pydantic's findings in our words."""
    what, mend = first_finding(
        error, lambda place: [f.name for f in fields(Partition if "partitions" in place else Machine)]
    )
    return MachineError(what, where=where, mend=mend)
