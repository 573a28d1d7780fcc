"""Read the physics that a task or a machine file names (rule 21 of docs/semantics.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattqueue.errors import InputError
from wattqueue.model.machine import Machine
from wattqueue.policy.row_files import files_in, read_option
from wattqueue.runs.options import MOST_ERROR
from wattqueue.runs.task import Task

if TYPE_CHECKING:
    from wattqueue.model.physics import Physics, PhysicsFiles


def load_physics(files: PhysicsFiles, where: str) -> Physics:
    """Return what files say of the truth; ``where`` names the file that names them.

    Raises: InputError naming the file, and the line where it is known, for a file that cannot be used.
    """
    from wattqueue.formats.physics import read_cells, read_limits
    from wattqueue.formats.unit_factors import read_unit_figures
    from wattqueue.model.physics import Cells, Physics

    cells = [] if files.table is None else [read_cells(Path(files.table))]
    units = None if files.units is None else read_unit_figures(Path(files.units))
    if files.ear is not None:
        named = {key: name for key, name in vars(files.ear).items() if name is not None}
        profiles = read_option("profiles", named, where)
        source = f"EAR's coefficients in {Path(files.ear.coefficients).name}"
        cells.append(Cells.of_profiles(profiles, source, files.ear.coefficients))
    limits = None if files.limits is None else read_limits(Path(files.limits))
    names = tuple(str(p) for p in files_of(files))
    return Physics(tuple(cells), units, files.reference, files.reference_hz, where, names, limits=limits)


def files_of(files: PhysicsFiles) -> list[Path]:
    """Return the files that a physics file names; an application database that a URL names is none."""
    ear = () if files.ear is None else vars(files.ear).values()
    named = [Path(name) for name in (files.table, files.units, files.limits, *ear) if name is not None]
    return [path for path in named if path.is_file()]


def physics_of(task: Task, machine: Machine, given: Physics | None = None) -> Physics | None:
    """Return the physics of a run: ``given``, of the file that the task names, or of its machine file; None for none.

    Raises: InputError as ``load_physics``, and for an error without physics.
    """
    name, error = task.physics, task.physics_error or 0.0
    if not 0.0 <= error <= MOST_ERROR:
        raise InputError(f"{error:g} is not 0 to {MOST_ERROR:g}", where="--physics-error", hint="0.05 means about 5 %")
    if given is None:
        files = machine.physics if name is None else _read(Path(name))
        if files is None:
            if error > 0.0:
                raise InputError("there is no physics to multiply", where="--physics-error", hint="name --physics FILE")
            return None
        given = load_physics(files, f"{machine.name}: [physics]" if name is None else name)
    return replace(given, error=error or given.error, seed=task.seed)


def _read(path: Path) -> PhysicsFiles:
    """Return what a physics file says. Raises: InputError."""
    from wattqueue.formats.physics import read_physics_file

    return read_physics_file(path)


def same_figures(physics: Physics | None, row: Mapping[str, Any]) -> dict[str, int]:
    """Return a note with the number of files that both physics and a row's estimator read; empty for none.

    Its predictions are true by construction then, unless the truth is multiplied by an error.
    """
    if physics is None or physics.error > 0.0:
        return {}
    estimator = {path.resolve() for path in files_in(row.get("estimator"))}
    both = [Path(name).name for name in physics.files if Path(name).resolve() in estimator]
    return (
        {f"prediction = truth: files that estimator and physics both read ({', '.join(both)})": len(both)}
        if both
        else {}
    )
