"""Machines in TOML, both ways, and the catalogue of machines that come with WattQueue (``machines/*.toml``).

The keys of the file are the field names of ``Machine`` and ``Partition``. Types and unknown keys are checked by
``schema``, everything that depends on several figures by ``model.machine``.

The smallest file that is accepted, and one key more::

    name = "small"

    [[partitions]]
    name = "batch"
    nodes = 64
    idle_w = 95.0

Reading: ``load_machine`` (a name or a path) calls ``read_machine`` (a path) calls ``machine_of`` (dictionaries, also
those inside a run.toml). Writing: ``machine_data`` gives dictionaries, ``machine_toml`` their text, ``write_machine`` a
file. What is written reads back to an equal machine.

A node's watts are written as ``95:190.7``, idle and maximum (``parse_node_watts``), for ``--node-watts`` and as bounds
for energy counters. Both figures are of the whole node, as a meter at its plug would show them. The order is fixed: one
of the figures of a reversed pair may be mistyped.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattqueue.errors import InputError, MachineError, WattQueueError, one_of
from wattqueue.formats.source import exists
from wattqueue.formats.toml import dumps, read_toml
from wattqueue.model.bounds import UNIT_W
from wattqueue.model.machine import GPU_FIGURES, Machine, Partition
from wattqueue.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from pydantic import ValidationError

CONFIRM = "please confirm"
"""The mark behind a figure that was guessed, not stated."""


def load_machine(name_or_path: str | Path) -> Machine:
    """Return a machine of the catalogue by its name, or from a TOML file.

    A name of the catalogue comes first; text that ends in ``.toml``, contains a slash or exists as a file is a
    path.

    Raises: InputError for a file that cannot be read; MachineError naming file, partition and key, or the nearest
    name.
    """
    text = str(name_or_path)
    if text in catalogue():
        return read_machine(CATALOGUE / f"{text}.toml")
    path = Path(name_or_path)
    # A name that looks like a path is a file, even if it does not exist: then the error names it.
    if path.suffix == ".toml" or exists(path) or len(path.parts) > 1:
        return read_machine(path)
    raise MachineError(
        f"no machine {text!r} in the catalogue and no such file",
        where="machine",
        hint=one_of(text, catalogue()),
    )


CATALOGUE = Path(__file__).parents[1] / "machines"
"""Files of the machines that come with WattQueue."""


@cache
def catalogue() -> tuple[str, ...]:
    """Return the names of the machines that come with WattQueue, sorted.

    Cached, since the files of an installation do not change while it runs.
    """
    return tuple(sorted(f.name.removesuffix(".toml") for f in CATALOGUE.iterdir() if f.name.endswith(".toml")))


def read_machine(path: Path) -> Machine:
    """Return a machine from a TOML file whose keys are the fields of Machine and, under ``[[partitions]]``, Partition.

    Raises: InputError for a file that cannot be read; MachineError naming file, partition and key.
    """
    data = read_toml(path)
    machine = machine_of(data, path, path.parent)
    physics, known = machine.physics, machine.known
    if physics is not None:
        from wattqueue.formats.physics import anchored

        machine = replace(machine, physics=anchored(physics, path.parent))
    if known is not None:
        from wattqueue.formats.known_files import anchored_known

        machine = replace(machine, known=anchored_known(known, path.parent))
    return machine


def machine_of(data: Mapping[str, Any], where: str | Path, folder: Path = Path()) -> Machine:
    """Return a machine from nested dictionaries as TOML gives them.

    Also used for the machine inside a run.toml; ``where`` is the file for errors, ``folder`` the one from which the
    files of its power domains count.

    Raises: MachineError naming the key.
    """
    from pydantic import ValidationError

    from wattqueue.formats.known_files import known_files
    from wattqueue.formats.machine.gpu_curve import with_curve
    from wattqueue.formats.machine.schema import MachineFile
    from wattqueue.formats.machine.supply import supply_of
    from wattqueue.formats.physics import physics_files
    from wattqueue.model.power_sensor import PowerSensor

    try:
        checked = MachineFile.model_validate(dict(data)).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise _explained(error, where) from error
    # pydantic has checked types and keys; the model checks what depends on several figures, with a place of its own.
    version = checked.pop("schema_version", SCHEMA_VERSION)
    if version > SCHEMA_VERSION:
        raise MachineError(f"schema version {version}", where=where, hint="use a newer WattQueue")
    try:
        partitions = tuple(_partition(with_curve(row, folder)) for row in checked.pop("partitions"))
        sensor = checked.pop("sensor", None)
        measured = None if sensor is None else PowerSensor(**sensor)
        physics = checked.pop("physics", None)
        stated = None if physics is None else physics_files(physics, f"{where}: physics")
        known = checked.pop("known", None)
        files = None if known is None else known_files(known, f"{where}: known")
        supply = supply_of(checked.pop("supply", []), checked.pop("supply_csv", None), partitions, folder)
        return Machine(partitions=partitions, supply=supply, sensor=measured, physics=stated, known=files, **checked)
    except WattQueueError as error:
        raise MachineError(error.what, where=f"{where}: {error.where}", hint=error.hint) from error


def _partition(row: dict[str, Any]) -> Partition:
    """Return a partition from the keys of its table; lists become tuples, since a Partition is hashable."""
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
    return Partition(**values)


def machine_data(machine: Machine) -> dict[str, Any]:
    """Return every figure of a machine as nested dictionaries, for TOML; what is not stated is None.

    Figures of GPUs are left out where a partition has none.
    """
    from wattqueue.model.codec import plain

    data = plain(machine)
    partitions, supply = data.pop("partitions"), data.pop("supply")
    for part in partitions:
        if not part["gpus_per_node"]:
            for name in ("gpus_per_node", *GPU_FIGURES):
                del part[name]
    tables = {"partitions": partitions, "supply": supply} if supply else {"partitions": partitions}
    return {"schema_version": SCHEMA_VERSION, **data, **tables}


def machine_toml(machine: Machine, marks: Mapping[str, str] | None = None) -> str:
    """Return a machine as TOML text. ``marks`` puts comments behind keys: ``{"partitions.0.idle_w": CONFIRM}``."""
    return dumps(machine_data(machine), marks)


def write_machine(path: Path, machine: Machine, marks: Mapping[str, str] | None = None) -> None:
    """Write a machine as a TOML file, with comments as ``machine_toml``. Raises: OutputError."""
    from wattqueue.formats.atomic_write import atomic_write

    with atomic_write(path) as temporary:
        temporary.write_text(machine_toml(machine, marks), encoding="utf-8")


def _explained(error: ValidationError, where: str | Path) -> MachineError:
    """Return the first of pydantic's findings as a MachineError.

    For an unknown key the hint suggests a field of the class in whose table it stands.
    """
    from wattqueue.formats.checked_toml import first_finding

    what, hint = first_finding(error, lambda place: [f.name for f in fields(_table(place))])
    return MachineError(what, where=where, hint=hint)


def _table(place: Container[object]) -> type:
    """Return the class whose fields are the keys of the table at a place of the file."""
    from wattqueue.model.known_files import KnownFiles
    from wattqueue.model.physics import EarFiles, PhysicsFiles
    from wattqueue.model.power_sensor import PowerSensor

    if "partitions" in place:
        return Partition
    if "supply" in place:
        from wattqueue.model.supply import SupplyDomain

        return SupplyDomain
    if "physics" in place or "known" in place:
        return EarFiles if "ear" in place else PhysicsFiles if "physics" in place else KnownFiles
    return PowerSensor if "sensor" in place else Machine


WHERE = "--node-watts"
"""The place that errors name."""


def parse_node_watts(text: str) -> tuple[float, float]:
    """Return idle and maximum watts of a node, 0 <= idle <= maximum.

    Raises: InputError for other text, figures out of order, and watts outside ``bounds.UNIT_W``.
    """
    idle, _, most = text.partition(":")
    try:
        watts = float(idle), float(most)
    except ValueError:
        watts = math.nan, math.nan  # NaN fails every comparison below, as do infinity and a pair out of order
    if not 0 <= watts[0] <= watts[1] < math.inf:
        raise InputError(f"{text!r} is not IDLE:MAX in watts", where=WHERE, hint="for example 95:190.7, idle first")
    return UNIT_W.require(watts[0], "idle watts", where=WHERE), UNIT_W.require(watts[1], "maximum watts", where=WHERE)
