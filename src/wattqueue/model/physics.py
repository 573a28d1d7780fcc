"""What jobs truly draw and how long they run, by application, partition, clock and unit (rule 21 of docs/semantics.md).

``PhysicsFiles`` are the keys of a physics file, or of ``[physics]`` in a machine file; ``Physics`` is what these files
say. A simulation turns it into true figures of its jobs (``sim/physics.py``). Estimators never see it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.bounds import UNIT_W
from wattqueue.model.jobs import Floats

if TYPE_CHECKING:
    from wattqueue.model.app_profiles import AppProfiles
    from wattqueue.model.unit_table import UnitTable


@dataclass(frozen=True)
class EarFiles:
    """Files of EAR's figures: coefficients, and metrics of applications in a CSV or in an application database."""

    coefficients: str
    apps: str | None = None
    database: str | None = None


@dataclass(frozen=True)
class PhysicsFiles:
    """Where the physics of a machine is stated.

    Attributes:
        reference: Partition on which jobs ran whose table does not say it.
        reference_hz: Clock at which they ran there; None for the partition's highest.
        table: CSV of measured watts and run times by application, partition and clock.
        units: CSV of watts, and maybe run times, by application and unit.
        limits: CSV of watts and run times of applications under limits on a unit.
        ear: Files of EAR's figures.
    """

    reference: str | None = None
    reference_hz: float | None = None
    table: str | None = None
    units: str | None = None
    limits: str | None = None
    ear: EarFiles | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Watts and run times of applications at single clocks of partitions, from one source. Shapes (k,).

    Only ratios within an application count: seconds may be those of a benchmark.

    Attributes:
        source: What outputs call the source.
        app: Applications.
        partition: Partitions.
        frequency_hz: Clocks; NaN for the partition's highest.
        watts: Mean watts of one unit.
        time_s: Run times.
        where: File and line of each cell.
        every_clock: Whether a clock that the partition does not offer is an error; else its cell has no effect.
        gpu_cap_w: GPU limits in watts, NaN for none; None where no cell has one.

    Raises: InputError naming the place of a figure that is not above 0 and finite, or beyond what a unit can draw.
    """

    source: str
    app: tuple[str, ...]
    partition: tuple[str, ...]
    frequency_hz: Floats
    watts: Floats
    time_s: Floats
    where: tuple[str, ...]
    every_clock: bool = True
    gpu_cap_w: Floats | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name, column in (("watts", self.watts), ("time_s", self.time_s)):
            bad = np.flatnonzero(~(np.isfinite(column) & (column > 0)))
            if len(bad):
                raise InputError(
                    f"{name} of {self.app[bad[0]]} on {self.partition[bad[0]]} is {column[bad[0]]:g}, not above 0",
                    where=self.where[bad[0]],
                    hint="measure it again, or leave the row out",
                )
        high = np.flatnonzero(~UNIT_W.holds(self.watts))
        if len(high):
            UNIT_W.require(float(self.watts[high[0]]), "watts", where=self.where[high[0]])

    @classmethod
    def of_profiles(cls, profiles: AppProfiles, source: str, where: str) -> Cells:
        """Return the cells of profiles whose configurations are partitions; gaps are left out."""
        found = [
            (app, name, hz, watts, seconds)
            for name, one in profiles.hardware.items()
            for app, row_w, row_s in zip(profiles.apps, one.power_w, one.time_s, strict=True)
            for hz, watts, seconds in zip(one.frequency_hz, row_w, row_s, strict=True)
            if np.isfinite(watts) and np.isfinite(seconds)
        ]
        app, partition = (tuple(str(row[k]) for row in found) for k in range(2))
        hz, watts, time_s = np.array([row[2:] for row in found], np.float64).reshape(-1, 3).T
        places = tuple(f"{where}: application {a} on {p}" for a, p in zip(app, partition, strict=True))
        return cls(source, app, partition, hz, watts, time_s, places, every_clock=False)


@dataclass(frozen=True, slots=True, eq=False)
class UnitFigures:
    """Watts, and maybe run times, of applications on single units.

    Attributes:
        source: What outputs call the source.
        where: The file.
        watts: Watts.
        times: Run times; None where the file has none.
    """

    source: str
    where: str
    watts: UnitTable
    times: UnitTable | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LimitFigures:
    """Watts and run times of applications under limits on one unit, at the highest clock of a partition. Shapes (k,).

    Attributes:
        source: What outputs call the source.
        app: Applications.
        partition: Partitions.
        limit_w: Limits; the greatest one of an application on a partition holds nothing back.
        watts: Mean watts of the unit under the limit.
        time_s: Run times; only ratios within an application and a partition count.
        where: File and line of each row.
    """

    source: str
    app: tuple[str, ...]
    partition: tuple[str, ...]
    limit_w: Floats
    watts: Floats
    time_s: Floats
    where: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Physics:
    """What files say of the truth; ``on_machine`` of ``sim/physics.py`` checks it against a machine.

    Attributes:
        cells: Measured tables and EAR's figures, by source.
        units: Figures by unit, None where units are equal.
        limits: Run times under limits, None where they follow from the machine's exponents.
        reference: Partition on which jobs ran whose table does not say it; None: not stated.
        reference_hz: Clock at which they ran there; None for the highest.
        where: The file that states the reference, for errors.
        files: Every file that was read.
        error: Standard deviation of the logarithm of what each (application, partition) is multiplied by; 0 for none.
        seed: Seed of that draw.
    """

    cells: tuple[Cells, ...] = ()
    units: UnitFigures | None = None
    reference: str | None = None
    reference_hz: float | None = None
    where: str = "physics"
    limits: LimitFigures | None = field(default=None, kw_only=True)
    files: tuple[str, ...] = ()
    error: float = field(default=0.0, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def digest(self) -> str:
        """Return a short hash of all figures, for the identity of a run; names of files do not count.

        Neither does the seed where no error is drawn: the truth is the same.
        """
        from wattqueue.model.codec import plain

        cells = tuple(replace(each, source="", where=()) for each in self.cells)
        units = None if self.units is None else replace(self.units, source="", where="")
        limits = None if self.limits is None else replace(self.limits, source="", where=())
        seed = self.seed if self.error else 0
        figures = plain(replace(self, cells=cells, units=units, limits=limits, files=(), where="", seed=seed))
        for each in figures["cells"]:
            if each["gpu_cap_w"] is None:
                del each["gpu_cap_w"]
        return hashlib.sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()[:16]
