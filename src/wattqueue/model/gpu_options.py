"""Nodes of GPUs as a partition's figures: what is checked, and what each GPU limit leaves a unit.

A limit is an operating point of a partition, as a frequency is: its options are ``gpu_caps_w``, the greatest (the
GPU's maximum, at which jobs are recorded) first. Of a unit's watts above idle its GPUs have the share that they have
at its maximum; that part is held back as ``model.gpu_limits`` says, the rest is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from wattqueue.errors import MachineError
from wattqueue.model import bounds
from wattqueue.model.jobs import Floats


class GpuPartition(Protocol):
    """What is read here of a partition (``model.machine.Partition``, which imports this module)."""

    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def units_per_node(self) -> int: ...
    @property
    def frequencies_hz(self) -> tuple[float, ...]: ...
    @property
    def idle_w(self) -> float: ...
    @property
    def max_w(self) -> float | None: ...
    @property
    def dvfs_beta(self) -> float: ...
    @property
    def dvfs_alpha(self) -> float: ...
    @property
    def gpus_per_node(self) -> int: ...
    @property
    def gpu_idle_w(self) -> float: ...
    @property
    def gpu_max_w(self) -> float | None: ...
    @property
    def gpu_caps_w(self) -> tuple[float, ...]: ...
    @property
    def gpu_floor_w(self) -> float: ...
    @property
    def curve_share(self) -> tuple[float, ...]: ...
    @property
    def curve_time(self) -> tuple[float, ...]: ...


def require_gpus(part: GpuPartition, figures: Sequence[str]) -> None:
    """Check a partition's figures of GPUs (names in ``figures``) against each other and its unit.

    Raises: MachineError naming the figure.
    """
    where = f"partition {part.name}"
    stated = [name for name in figures if getattr(part, name)]
    if not part.gpus_per_node:
        if part.unit == "gpu" or stated:
            what = f"{stated[0] if stated else 'unit gpu'} without gpus_per_node"
            raise MachineError(what, where=where, hint="state how many GPUs a node has")
        return
    bounds.GPUS_PER_NODE.require(part.gpus_per_node, "gpus_per_node", where=where, kind=MachineError)
    if part.unit not in ("node", "gpu"):
        hint = 'unit = "node" or unit = "gpu"'
        raise MachineError(f"GPUs in a partition whose unit is a {part.unit}", where=where, hint=hint)
    for name in ("gpu_idle_w", "gpu_max_w", "gpu_floor_w"):
        if getattr(part, name) is not None:
            bounds.UNIT_W.require(getattr(part, name), name, where=where, kind=MachineError)
    in_unit = gpus_in_unit(part)
    if part.idle_w < in_unit * part.gpu_idle_w:
        what = f"idle_w = {part.idle_w:g} of a unit is below its {in_unit} GPUs of gpu_idle_w = {part.gpu_idle_w:g}"
        raise MachineError(what, where=where, hint="idle_w includes the GPUs")
    if part.gpu_caps_w:
        _require_caps(part, where)
        _require_curve(part, where)
    elif part.curve_share or part.gpu_floor_w:
        raise MachineError("a curve or a floor without gpu_caps_w", where=where, hint="list the limits to choose among")


def _require_caps(part: GpuPartition, where: str) -> None:
    """Check the limits of a partition's GPUs. Raises: MachineError."""
    if part.frequencies_hz:
        what, hint = "frequencies_hz beside gpu_caps_w", "state the clocks or the limits: an option is one of them"
        raise MachineError(what, where=where, hint=hint)
    if part.gpu_max_w is None or part.max_w is None:
        what = f"gpu_caps_w without {'gpu_max_w' if part.gpu_max_w is None else 'max_w'}"
        raise MachineError(what, where=where, hint="what a limit takes from a unit is counted from its maximum")
    caps, most, idle = part.gpu_caps_w, part.gpu_max_w, part.gpu_idle_w
    if caps[0] != most or list(caps) != sorted(set(caps), reverse=True):
        hint = "gpu_max_w first, where jobs were recorded, then lower ones, each once"
        raise MachineError(f"gpu_caps_w = {list(caps)}", where=where, hint=hint)
    if not idle < caps[-1] or part.gpu_floor_w > most:
        what = f"gpu_caps_w down to {caps[-1]:g}, gpu_floor_w = {part.gpu_floor_w:g}"
        raise MachineError(what, where=where, hint=f"between gpu_idle_w = {idle:g} and gpu_max_w = {most:g}")
    if part.max_w - part.idle_w < gpus_in_unit(part) * (most - idle) - 1e-9:
        what = f"max_w = {part.max_w:g} of a unit has no room for its GPUs' {gpus_in_unit(part)} x {most:g} W"
        raise MachineError(what, where=where, hint="max_w - idle_w is at least GPUs x (gpu_max_w - gpu_idle_w)")


def _require_curve(part: GpuPartition, where: str) -> None:
    """Check the curve of run times. Raises: MachineError."""
    share, time = part.curve_share, part.curve_time
    if not share and not time:
        return
    rising = list(share) == sorted(set(share)) and list(time) == sorted(time, reverse=True)
    if len(share) != len(time) or not rising or share[-1] != 1.0 or time[-1] != 1.0 or share[0] <= 0.0:
        hint = "shares rising to 1, and as many times, falling to 1; or curve = FILE"
        raise MachineError("curve_share and curve_time are no curve", where=where, hint=hint)


def gpus_in_unit(part: GpuPartition) -> int:
    """Return how many GPUs a unit has: those of the node, or one."""
    return part.gpus_per_node // part.units_per_node


def host_share(part: GpuPartition) -> list[float]:
    """Return for each limit the share of a unit's watts above idle that it does not hold back; 1 for the first."""
    if part.max_w is None or part.gpu_max_w is None or not part.gpu_caps_w:
        return [1.0]
    of_gpus = gpus_in_unit(part) * (part.gpu_max_w - part.gpu_idle_w)
    return [1.0, *[1.0 - of_gpus / (part.max_w - part.idle_w)] * (len(part.gpu_caps_w) - 1)]


def held_w(part: GpuPartition) -> list[float]:
    """Return for each limit the watts above idle that it leaves the GPUs of a unit, not below the floor's.

    0 for the first, of which nothing is held back (``host_share``).
    """
    lower = part.gpu_caps_w[1:]
    return [0.0, *(gpus_in_unit(part) * (max(cap, part.gpu_floor_w) - part.gpu_idle_w) for cap in lower)]


def time_factors(part: GpuPartition, dynamic_w: Floats) -> Floats:
    """Return run times at each limit over that at the first, of jobs by their watts above idle there.

    Shapes: ``dynamic_w`` (C,), result (C, limits).
    """
    from wattqueue.model.gpu_limits import GpuCurve, share_left

    curve = GpuCurve(part.curve_share, part.curve_time) if part.curve_share else GpuCurve()
    of_gpus = np.asarray(dynamic_w)[:, np.newaxis] * (1.0 - np.array(host_share(part)))
    share = share_left(of_gpus, np.where(of_gpus > 0.0, held_w(part), np.inf))
    return curve.time_factor(share, part.dvfs_beta, part.dvfs_alpha)
