"""A power cap as the command line takes it: ``400kW``, ``70%``, ``none``, or a CSV of time_s,cap_w."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from wattqueue.errors import InputError, MachineError
from wattqueue.formats.series import read_steps
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap

UNITS_W = {"w": 1.0, "kw": 1e3, "mw": 1e6, "gw": 1e9}
QUANTITY = re.compile(r"\s*((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(%|[A-Za-z]*)\s*")
HOW = "write 400kW, 1.2MW, 70%, none, or the name of a CSV with the columns time_s,cap_w"


def parse_cap(text: str, machine: Machine) -> Cap:
    """Read a cap; a percentage is of the sum of unit maxima in the machine's cap scope.

    Raises: InputError for a text or file that is no cap, or a unit missing; MachineError for a
    percentage of maxima that are not stated, or a cap below what the idle machine draws in its scope.
    """
    if text.strip().lower() == "none":
        return Cap.none()
    found = QUANTITY.fullmatch(text)
    if found:
        cap = Cap.constant(_watts(text, float(found[1]), found[2].lower(), machine))
        _refuse_below_idle(cap, machine, "cap", f"cap {text.strip()}")
        return cap
    path = Path(text)
    if not text.strip() or not (path.suffix.lower() in {".csv", ".gz"} or os.path.lexists(path)):
        raise InputError(f"{text!r} is no cap", where="cap", mend=HOW)
    return read_cap(path, machine)


def read_cap(path: Path, machine: Machine) -> Cap:
    """Read a cap from a CSV of time_s,cap_w on the trace's clock; ``inf`` or ``none`` lifts it.

    Raises: InputError naming file and line; MachineError for a cap below what the idle machine draws.
    """
    steps = read_steps(path, "time_s", "cap_w", words={"none": np.inf, "inf": np.inf}, least=0.0)
    cap = Cap(steps.time_s, steps.value)
    _refuse_below_idle(cap, machine, f"{path}:{steps.line[int(np.argmin(steps.value))]}", "cap")
    return cap


def _watts(text: str, number: float, unit: str, machine: Machine) -> float:
    if unit == "%":
        most = machine.scope_max_w()
        if most is None:
            raise MachineError(
                f"cap {text} is a share of the machine's maximum, and it states none",
                where=machine.name,
                mend="state max_w of every partition (--node-watts IDLE:MAX), or give the cap in watts",
            )
        return number / 100.0 * most
    if unit not in UNITS_W:
        what = f"unit {unit!r} of cap {text!r} is unknown" if unit else f"cap {text!r} has no unit"
        raise InputError(what, where="cap", mend=HOW)
    return number * UNITS_W[unit]


def _refuse_below_idle(cap: Cap, machine: Machine, where: str, name: str) -> None:
    least, idle = float(cap.cap_w.min()), machine.scope_idle_w()
    if least < idle:
        raise MachineError(
            f"{name} of {least:,.15g} W is below the {idle:,.15g} W that {machine.name} draws idle",
            where=where,
            mend="raise it, or set cap_scope to dynamic (above idle) or jobs",
        )
