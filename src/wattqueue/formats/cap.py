"""A power cap as the command line accepts it: ``400kW``, ``70%``, ``none``, or a CSV of time_s,cap_w.

A cap below what the idle machine draws inside the cap's scope cannot be held by any policy (semantics, rule 14), so
it is refused here instead of giving a run in which no job ever starts.

The forms are told apart in this order: the word ``none``; a number with a unit or ``%``; else the name of a file. So a
file that is called ``70%`` can only be given as ``./70%``. A percentage refers to the sum of the unit maxima that count
in the machine's cap scope (rule 14), so 100 % is a cap that no load of the machine exceeds by its stated maxima.

An example of a file, in which the cap is 400 kW during the first hour and 250 kW from then on::

    time_s,cap_w
    0,400000
    3600,250000
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from wattqueue.errors import InputError, MachineError
from wattqueue.model.bounds import CAP_W
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap

UNITS_W = {"w": 1.0, "kw": 1e3, "mw": 1e6, "gw": 1e9}
"""Watts of a unit in small letters: ``mW`` is read as megawatts, since nobody caps a machine at milliwatts."""
QUANTITY = re.compile(r"\s*((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(%|[A-Za-z]*)\s*")
"""A number and a unit; no sign, since a cap is never negative."""
# The hint of every error about the text of a cap.
HOW = "write 400kW, 1.2MW, 70%, none, or the name of a CSV with the columns time_s,cap_w"


def parse_cap(text: str, machine: Machine, *, below_idle: bool = False) -> Cap:
    """Return the cap of a text; a percentage is of the sum of unit maxima in the machine's cap scope.

    ``below_idle`` accepts a file whose cap no policy can hold: a controller closes the pool then.

    Raises: InputError for a text or file that is no cap, or a unit missing; MachineError for a percentage of maxima
    that are not stated, or a cap below what the idle machine draws in its scope.
    """
    if text.strip().lower() == "none":
        return Cap.none()
    found = QUANTITY.fullmatch(text)
    if found:
        watts = _watts(text, float(found[1]), found[2].lower(), machine)
        cap = Cap.constant(CAP_W.require(watts, "cap", where="cap"))
        refuse_below_idle(cap, machine, "cap", f"cap {text.strip()}")
        return cap
    path = Path(text)
    # A name that looks like a CSV is read even if it does not exist: then the error says "no such file" with the name,
    # instead of "is not a cap". ``lexists`` does not raise for names that the system cannot have.
    if not text.strip() or not (path.suffix.lower() in {".csv", ".gz"} or os.path.lexists(path)):
        raise InputError(f"{text!r} is not a cap", where="cap", hint=HOW)
    return read_cap(path, machine, below_idle=below_idle)


def read_cap(path: Path, machine: Machine, *, below_idle: bool = False) -> Cap:
    """Return the cap of a CSV of time_s,cap_w on the trace's clock; ``inf`` or ``none`` lifts it.

    Each row holds until the next one. Before the first row its value is in force already (semantics, rule 1). The check
    against idle watts is on the lowest value of the file, and the error names its line.

    Raises: InputError naming file and line; MachineError for a cap below what the idle machine draws.
    """
    from wattqueue.formats.series import read_steps

    steps = read_steps(path, "time_s", "cap_w", words={"none": np.inf, "inf": np.inf}, bound=CAP_W)
    cap = Cap(steps.time_s, steps.value)
    if not below_idle:
        refuse_below_idle(cap, machine, f"{path}:{steps.line[int(np.argmin(steps.value))]}", "cap")
    return cap


def _watts(text: str, number: float, unit: str, machine: Machine) -> float:
    """Return the watts of a number and a unit; a percentage is of the scope's maximum.

    Raises: InputError for an unknown or missing unit; MachineError for a percentage where no maximum is stated.
    """
    if unit == "%":
        most = machine.scope_max_w()
        if most is None:
            raise MachineError(
                f"cap {text} needs the maximum watts of each node",
                where=machine.name,
                hint="add --node-watts IDLE:MAX or max_w of every partition, or give the cap in watts",
            )
        return number / 100.0 * most
    if unit not in UNITS_W:
        what = f"unit {unit!r} of cap {text!r} is unknown" if unit else f"cap {text!r} has no unit"
        raise InputError(what, where="cap", hint=HOW)
    return number * UNITS_W[unit]


def refuse_below_idle(cap: Cap, machine: Machine, where: str, name: str) -> None:
    """Raise MachineError for a cap below the idle watts in its scope.

    ``where`` and ``name`` are the place and the beginning of the error text. A cap equal to the idle watts passes: it
    lets no job start that adds watts, but it can be held. In the scopes ``dynamic`` and ``jobs`` idle watts do not
    count, so that any cap passes (semantics, rule 14).
    """
    least, idle = float(cap.cap_w.min()), machine.scope_idle_w()
    if least < idle:
        raise MachineError(
            f"{name} of {least:,.15g} W is below the {idle:,.15g} W that {machine.name} draws idle",
            where=where,
            hint="raise the cap, or set cap_scope to dynamic (watts above idle) or jobs",
        )


def names_file(text: str) -> bool:
    """Whether the text of a cap can only be meant as a file: it has a folder, or the ending of a series."""
    return "/" in text or Path(text).suffix.lower() in {".csv", ".gz"}
