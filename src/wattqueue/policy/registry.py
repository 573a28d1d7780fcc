"""Find parts by name; eight of them are a policy.

A part is one file: ``parts/estimator/history_mean.py`` holds class ``HistoryMean``, and its key is ``history-mean``;
there is no list to edit. Three sources, all named in a policy's row in the same way:

* a key of ours: the file of that name in ``parts/<axis>/``;
* a key of another installed package: its entry point in the group ``wattqueue.<axis>``;
* a file of the user's own, by path: ``my.py:MyPart``, or ``my.py`` if it holds one part only.

A class is a part of an axis if it has the method of its interface (``policy/interfaces.py``); nothing is inherited or
registered.
"""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from wattqueue.errors import PolicyError, one_of
from wattqueue.parts import contracts, run_contracts
from wattqueue.policy.interfaces import AXES, METHODS, axes_of, stated

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@cache
def _installed(axis: str) -> tuple[EntryPoint, ...]:
    """Return what other packages add to an axis; looked up once a process, since that reads a file for each package."""
    from wattqueue.installed import entry_points_of

    return entry_points_of(f"wattqueue.{axis}")


def part_names(axis: str) -> list[str]:
    """Return the keys of all parts of an axis, ours and those of other packages, sorted."""
    own = [p.stem.replace("_", "-") for p in _folder(axis).glob("*.py") if not p.stem.startswith("_")]
    return sorted({*own, *(point.name for point in _installed(axis))})


def _folder(axis: str) -> Path:
    """Return where our parts of an axis are."""
    return Path(contracts.__file__).parent / axis


def part_class(axis: str, name: str) -> type[Any]:
    """Return the class behind a key or a ``file.py:Class``.

    Order: a path, an entry point of another package, a file of ours. So another package may replace a part of ours.

    Raises: PolicyError if there is none, or it is not a part of this axis.
    """
    if axis not in METHODS:
        raise PolicyError(f"unknown axis {axis!r}", hint=one_of(axis, AXES))
    if ".py" in name:
        found = class_from_file(name)
        if axis not in axes_of(found):
            raise PolicyError(f"{name} is not a part of kind {axis}", hint=f"it needs a method {METHODS[axis][0]}()")
        return found
    for point in _installed(axis):
        if point.name == name:
            loaded: type[Any] = point.load()
            return loaded
    stem = name.replace("-", "_")
    # One file is looked for: listing the folder for each part took a twentieth of a short simulation.
    if "_" in name or not stem.isidentifier() or not (_folder(axis) / f"{stem}.py").is_file():
        raise PolicyError(f"no {axis} part {name!r}", hint=one_of(name, part_names(axis)))
    module = importlib.import_module(f"wattqueue.parts.{axis}.{stem}")
    return _main_class(module, stem, name)


def part_name(found: type[Any]) -> str:
    """Return the key that a class would have as a part of ours: ``app-check`` for ``AppCheck``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", found.__name__).lower().rstrip("_")


def _main_class(module: ModuleType, stem: str, name: str) -> type[Any]:
    """Return the class of a module that is named after its file, underscores and case aside.

    Raises: PolicyError if the module has none.
    """
    wanted = stem.replace("_", "").lower()
    for key, value in vars(module).items():
        own = inspect.isclass(value) and value.__module__ == module.__name__
        if own and key.replace("_", "").lower() == wanted:
            return cast("type[Any]", value)
    raise PolicyError(f"part {name!r} has no class named after its file", where=module.__file__)


def part_file(path: Path) -> ModuleType:
    """Import a Python file that holds parts. Raises: PolicyError as ``load_file``."""
    from wattqueue.formats.python_file import load_file

    return load_file(path, PolicyError, "my.py:MyPart")


def class_from_file(path_and_name: str) -> type[Any]:
    """Return the class of ``file.py:Class``, or the only part in ``file.py``.

    Classes that the file imports do not count, only those that it defines.

    Raises: PolicyError if the file or the class is missing, or the file does not load.
    """
    path_text, _, name = path_and_name.partition(":")
    module = part_file(Path(path_text))
    own = {
        key: value
        for key, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and axes_of(value)
    }
    if name:
        value = vars(module).get(name)
        if not inspect.isclass(value):
            raise PolicyError(f"no class {name!r}", where=path_text, hint=f"it has {', '.join(own) or 'no part'}")
        return value
    if len(own) != 1:
        raise PolicyError(
            f"{len(own)} parts in one file", where=path_text, hint=f"name one: {path_text}:{'|'.join(own) or 'Class'}"
        )
    return next(iter(own.values()))


def _walltimes() -> contracts.RunTime:
    """Return the run-time part of a policy that names none. Looked up when it is needed: that reads entry points."""
    return cast("contracts.RunTime", part_class("runtime", "user-limit")())


@dataclass(frozen=True)
class Policy:
    """One part for each of the eight choices, and the row that they were made from."""

    name: str
    """Name of the row; errors and reports refer to it."""
    estimator: contracts.Estimator
    """Predicts watts, and relative run times by option."""
    order: contracts.Order
    """Makes entries with priorities."""
    frequency: contracts.Frequency
    """Chooses the options of each entry."""
    placement: contracts.Placement
    """Chooses units."""
    backfill: contracts.Backfill | run_contracts.CustomBackfill
    """Decides who may overtake whom: a compiled pass, or one in Python."""
    ledger: run_contracts.Ledger
    """What counts as drawn."""
    runtime: contracts.RunTime = field(default_factory=_walltimes)
    """Predicts how long jobs run: their planned times."""
    controls: tuple[run_contracts.Control, ...] = ()
    """Act on running jobs and nodes, in this order."""
    row: dict[str, Any] = field(default_factory=dict)
    """The row that the policy was made from, as run folders record it."""
    made: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The parts as they were made from the row, by choice."""

    def with_own_parts(self) -> dict[str, Any]:
        """Return the row with the parts that were put in place of those it names (``dataclasses.replace``)."""
        own = {axis: part for axis in AXES if (part := getattr(self, axis)) is not self.made.get(axis)}
        if "controls" in own:
            own["controls"] = list(own["controls"])  # rows are as TOML has them
        return {**self.row, **own}


def require_together(policy: Policy) -> None:
    """Raise PolicyError for controls of which one undoes what the other promises."""
    parking, limiting, keeping = (
        [part_name(type(control)) for control in policy.controls if stated(control, what, False)]
        for what in ("parks", "sets_limits", "keeps_maximum")
    )
    if len(parking) > 1:
        raise PolicyError(
            f"controls {' and '.join(parking)} both suspend jobs, and each would continue those of the other",
            where=policy.name,
            hint="leave one out, or the step park of lower-measured",
        )
    if limiting and keeping:
        raise PolicyError(
            f"{keeping[0]} in mode maximum beside {limiting[0]}: under limits jobs run longer than is set aside",
            where=policy.name,
            hint='state mode = "quantile" in the file of budgets, or leave the control out',
        )
