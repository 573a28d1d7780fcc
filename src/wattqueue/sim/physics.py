"""From physics to the true figures of a run: watts and time of each job by option, factors of units (rule 21).

``on_machine`` places every cell of the files on the options of a machine. For each kind of job, (application, reference
option), ``true_figures`` forms two rows of ratios: watts and run time at each option over those at the reference. Jobs
of a kind differ in their own watts alone, which the trace states.

What is not stated follows from the machine's exponents: other clocks of a partition from its highest stated one, a
partition without any cell from the reference partition.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError, PolicyError, one_of
from wattqueue.kernels.fresh import no_curves
from wattqueue.kernels.state import LimitCurves
from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import Schedule
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.scale import Scale, partition_figures, times_by_option
from wattqueue.policy.by_unit import bounds_of_partitions
from wattqueue.sim.limit_curves import limit_curves

if TYPE_CHECKING:
    from wattqueue.model.physics import Cells, Physics, UnitFigures
    from wattqueue.model.unit_table import UnitTable

EXPONENTS = "the machine's exponents"
"""Source of all that is not stated."""
ABOVE_EXPONENTS = "jobs that truly drew more at a lower clock than the machine's own maximum there, by its exponents"
"""Note with their number: no estimator of maxima keeps a cap with them."""
UNUSED = "applications of the physics, of which no job has one"
"""Note with their number, where the files say nothing of any job."""
FROM_TABLES = "jobs without watts of their own that draw those of the physics"
"""Note with the number of jobs whose absolute watts come from a table."""


@dataclass(frozen=True, slots=True, eq=False)
class MachinePhysics:
    """The cells of A applications on a machine's O options; NaN where nothing is stated. Shapes (A, O)."""

    apps: tuple[str, ...]
    watts: Floats
    time_s: Floats
    source: NDArray[np.int8]
    """Place in ``sources`` of what states each cell; 0 for nothing."""
    sources: tuple[str, ...]
    unit_watts: Floats | None
    """Factors of units on watts, mean 1 over the units of a partition; rows of ones for others. Shape (A, U)."""
    unit_times: Floats | None
    """Likewise on run time."""
    by_unit: NDArray[np.bool_]
    """Which applications have factors of units. Shape (A,)."""
    mean_only: NDArray[np.bool_]
    """Where the only cell of a partition is the mean over its units, which have no clock. Shape (A, P)."""


@dataclass(frozen=True, slots=True, eq=False)
class TrueFigures:
    """What n jobs truly draw and take, and which source says so."""

    actual: Prediction
    sources: tuple[str, ...]
    kind: NDArray[np.int32]
    """Row of ``source`` for each job. Shape (n,)."""
    source: NDArray[np.int8]
    """Place in ``sources`` by kind of job and option. Shape (K, O)."""
    by_unit: NDArray[np.bool_]
    """Jobs whose application has factors of units. Shape (n,)."""
    filled: NDArray[np.bool_]
    """Jobs whose watts come from a table, since the trace has none. Shape (n,)."""
    reference: NDArray[np.int64]
    """Option at which each job ran when it was recorded. Shape (n,)."""
    above_exponents: NDArray[np.bool_]
    """Where the watts of a job are above the maximum that the machine's exponents give at a clock. Shape (n, O)."""
    unused: int = 0
    """Applications in the files, if no job has one of them."""
    curves: LimitCurves = field(default_factory=no_curves)
    """Run times under limits."""
    under_limits: str = ""
    """What outputs call their source."""

    def recorded_w(self, jobs: Jobs) -> Floats:
        """Return the watts of one unit where each job was recorded; NaN where neither trace nor files know them."""
        own = np.full(len(jobs), np.nan) if jobs.mean_power_w is None else jobs.mean_power_w
        found = self.actual.watts(np.arange(len(jobs), dtype=np.int32), self.reference)
        return np.where(np.isfinite(own) | self.filled, found, np.nan)

    def notes(self, schedule: Schedule) -> dict[str, int]:
        """Return for how many of the jobs that ran each source was used, by text."""
        ran = np.flatnonzero(schedule.ran)
        used = np.bincount(self.source[self.kind[ran], schedule.option[ran]], minlength=len(self.sources))
        found = {
            f"jobs with true watts and times by {name}": int(k) for name, k in zip(self.sources, used, strict=True)
        }
        found["jobs with true factors of the units on which they ran"] = int(self.by_unit[ran].sum())
        found[ABOVE_EXPONENTS] = int(self.above_exponents[ran, schedule.option[ran]].sum())
        limited = len(self.curves.row) > 0 and self.curves.row[ran] >= 0
        found[f"jobs with true run times under limits by {self.under_limits}"] = int(np.sum(limited))
        found |= {FROM_TABLES: int(self.filled[ran].sum()), UNUSED: self.unused}
        return {text: count for text, count in found.items() if count}


def on_machine(physics: Physics, machine: Machine) -> MachinePhysics:
    """Return the cells of physics on the options of a machine.

    Raises: InputError naming the file, and the line where it is known, for an unknown partition or clock, two sources
    of one cell, and a table that covers a part of the units.
    """
    from wattqueue.parts.unit_tables import rows_of

    names = [app for cells in physics.cells for app in cells.app]
    tables = [] if physics.units is None else [t for t in (physics.units.watts, physics.units.times) if t is not None]
    apps = tuple(dict.fromkeys([*names, *(app for table in tables for app in table.apps)]))
    shape = len(apps), len(machine.option_partition)
    watts, time_s, source = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, np.int8)
    row, place = {app: k for k, app in enumerate(apps)}, dict[tuple[int, int], str]()
    for number, cells in enumerate(physics.cells, 1):
        for k, option in _options_of(cells, machine):
            at = row[cells.app[k]], option
            if at in place:
                raise InputError(
                    f"{cells.app[k]} on {_cell(machine, option)} is stated twice: also by {place[at]}",
                    where=cells.where[k],
                    hint="keep one of the two",
                )
            place[at] = cells.where[k]
            watts[at], time_s[at], source[at] = cells.watts[k], cells.time_s[k], number
    sources = (EXPONENTS, *(cells.source for cells in physics.cells))
    factor, slow, by_unit = _units(physics.units, apps, machine)
    mean_only = np.zeros((len(apps), len(machine.partitions)), np.bool_)
    if physics.units is not None:
        sources = (*sources, physics.units.source)
        for table, figures in ((physics.units.watts, watts), (physics.units.times, time_s)):
            if table is not None:
                mean_only |= _means(table, rows_of(table, apps), machine, figures, source, len(sources) - 1)
    return MachinePhysics(apps, watts, time_s, source, sources, factor, slow, by_unit, mean_only)


def _options_of(cells: Cells, machine: Machine) -> Iterator[tuple[int, int]]:
    """Yield number and option of each cell. Raises: InputError for an unknown partition or clock."""
    from wattqueue.sim.reference import gpu_option, option_at, refuse_clock

    partitions = [p.name for p in machine.partitions]
    nominal = dict(sorted(zip(cells.partition, cells.frequency_hz.tolist(), strict=True)))  # the greatest of each
    for k, name in enumerate(cells.partition):
        if name not in partitions:
            raise InputError(
                f"{machine.name} has no partition {name!r}", where=cells.where[k], hint=one_of(name, partitions)
            )
        cap_w = np.nan if cells.gpu_cap_w is None else float(cells.gpu_cap_w[k])
        if not np.isnan(cap_w):
            yield k, gpu_option(machine, partitions.index(name), cap_w, cells.where[k])
            continue
        hz = float(cells.frequency_hz[k])
        if not cells.every_clock and not machine.partitions[partitions.index(name)].frequencies_hz:
            # A partition without stated clocks runs at the nominal one, as the estimator takes it.
            hz = np.nan if hz == nominal[name] else 0.0
        option = option_at(machine, partitions.index(name), hz)
        if option is not None:
            yield k, option
        elif cells.every_clock:
            refuse_clock(machine, partitions.index(name), float(cells.frequency_hz[k]), cells.where[k])


def _cell(machine: Machine, option: int) -> str:
    """Return the name of a cell: partition and clock."""
    hz, cap_w = machine.option_frequency_hz[option], machine.option_gpu_cap_w[option]
    clock = "" if np.isnan(hz) else f" at {hz / 1e9:g} GHz"
    clock += "" if np.isnan(cap_w) else f" at a GPU limit of {cap_w:g} W"
    return machine.partitions[int(machine.option_partition[option])].name + clock


def _units(
    units: UnitFigures | None, apps: tuple[str, ...], machine: Machine
) -> tuple[Floats | None, Floats | None, NDArray[np.bool_]]:
    """Return the factors of units on watts and on run time, and which applications have any.

    A factor is relative to the mean over the units of its partition. Raises: InputError as ``on_machine``.
    """
    from wattqueue.parts.unit_tables import rows_of

    tables = (None, None) if units is None else (units.watts, units.times)
    where = "" if units is None else units.where
    known = np.any([rows_of(table, apps) >= 0 for table in tables], axis=0)
    watts, times = (None if table is None else _of_units(table, apps, machine, where) for table in tables)
    return watts, times, known


def _of_units(table: UnitTable, apps: tuple[str, ...], machine: Machine, where: str) -> Floats:
    """Return the factors of a table on all units, 1 for applications that it lacks. Shape (A, U).

    Raises: InputError as ``on_machine``.
    """
    from wattqueue.parts.unit_tables import relative_factors

    if len(table.units) > machine.units:
        raise InputError(
            f"{len(table.units)} units, and {machine.name} has {machine.units}", where=where,
            hint="units are numbered over the whole machine from 0; leave out those of another one",
        )  # fmt: skip
    try:
        factor = relative_factors(table, table.factor, apps, machine)
    except PolicyError as error:
        raise InputError(error.what, where=where, hint=error.hint) from None
    return np.nan_to_num(factor, nan=1.0)


def _means(
    table: UnitTable, row: NDArray[np.intp], machine: Machine, figures: Floats, source: NDArray[np.int8], number: int
) -> NDArray[np.bool_]:
    """Enter the mean over a partition's units at its highest clock where no cell of it is stated, in place.

    Returns: where it was entered, by application and partition.
    """
    from wattqueue.parts.unit_tables import factors_on

    whole = factors_on(table, machine) * table.base_w[:, np.newaxis]
    entered = np.zeros((len(row), len(machine.partitions)), np.bool_)
    for p, (first, end) in enumerate(bounds_of_partitions(machine)):
        low, high = machine.option_start[p : p + 2].tolist()
        new = (row >= 0) & np.isnan(figures[:, low:high]).all(axis=1)
        figures[new, low] = whole[row[new], first:end].mean(axis=1)
        source[new & (source[:, low] == 0), low] = number
        entered[new, p] = True
    return entered


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """Jobs of one application and one reference; kind 0 are those whose application no file states.

    Shapes: ``of_job`` (n,); ``watts``, ``time_factor`` and ``source`` (K, O): watts by the files, run time over that at
    the reference, places in ``MachinePhysics.sources``; ``base_w`` (K,): watts at the reference by the files;
    ``error`` (2, K, O): what true watts and run times are multiplied by.
    """

    of_job: NDArray[np.int32]
    watts: Floats
    time_factor: Floats
    source: NDArray[np.int8]
    base_w: Floats
    error: Floats

    @classmethod
    def of(
        cls,
        physics: Physics,
        table: MachinePhysics,
        machine: Machine,
        row: NDArray[np.int64],
        option: NDArray[np.int64],
    ) -> Kinds:
        """Return the kinds of jobs by ``row`` of the table (-1 for none) and reference ``option``. Shapes (n,)."""
        options = len(machine.option_partition)
        pairs, of_job = np.unique(np.append(-1, np.where(row < 0, -1, row * options + option)), return_inverse=True)
        none = np.ones(options), np.ones(options), np.zeros(options, np.int8), 1.0, np.ones((2, options))
        found = [_at_options(physics, table, machine, *divmod(pair, options)) for pair in pairs[1:].tolist()]
        watts, time, source, base, error = (np.array(each) for each in zip(none, *found, strict=True))
        return cls(of_job[1:].astype(np.int32), watts, time, source, base, np.swapaxes(error, 0, 1))


def true_figures(physics: Physics, jobs: Jobs, machine: Machine) -> TrueFigures:
    """Return what jobs truly draw and take at each option and on each unit of a machine.

    Raises: InputError as ``on_machine``; for a job whose reference is not stated or has no cell, and for true watts
    above the stated maximum of a unit.
    """
    from wattqueue.sim.reference import reference_options

    table = on_machine(physics, machine)
    app = np.array([*(table.apps.index(a) if a in table.apps else -1 for a in jobs.app.names), -1], np.int64)
    row = app[jobs.app.codes]
    reference = reference_options(physics, jobs, machine, row >= 0)
    own = jobs.max_power_w if jobs.mean_power_w is None else jobs.mean_power_w
    watts = np.full(len(jobs), np.nan) if own is None else np.asarray(own, np.float64)
    power, time = _by_exponents(watts, machine, reference)
    kinds = Kinds.of(physics, table, machine, row, reference)
    known = np.flatnonzero(row >= 0)
    kind, filled = kinds.of_job[known], np.isnan(watts) & (row >= 0)
    ratio = kinds.watts / kinds.base_w[:, np.newaxis]
    exact = np.where(filled[known, np.newaxis], kinds.watts[kind], watts[known, np.newaxis] * ratio[kind])
    power[known] = exact
    most_w = _most_watts(table, machine)[row]
    _refuse_above_maximum(physics, machine, jobs, power, most_w, np.where(row < 0, reference, -1))
    # An error never takes a unit above its stated maximum.
    power[known] = np.minimum(exact * kinds.error[0][kind], np.maximum(exact, most_w[known]))
    time[known] = kinds.time_factor[kind] * kinds.error[1][kind]
    factor, slow = (_of_jobs(jobs.app, app[:-1], each) for each in (table.unit_watts, table.unit_times))
    actual = Prediction(power, time, unit_factor=factor, unit_time_factor=slow)
    by_unit, unused = np.append(table.by_unit, False)[row], 0 if len(known) else len(table.apps)
    curves = limit_curves(physics.limits, jobs.app, machine)
    if (curves.row >= 0).any():
        unused = 0
    under = "" if physics.limits is None else physics.limits.source
    above = power > np.nan_to_num(Scale.of(machine).apply(np.full(1, np.nan)), nan=np.inf) + 1e-6
    found = table.sources, kinds.of_job, kinds.source, by_unit, filled, reference, above, unused
    return TrueFigures(actual, *found, curves, under)


def _by_exponents(watts: Floats, machine: Machine, reference: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return watts and time factors at each option from the machine's figures alone. Shapes (n,) -> (n, O).

    ``watts`` and run times are those at ``reference``, NaN for the stated maximum of a unit.
    """
    scale = Scale.of(machine)
    own = scale.at_reference(watts, reference)
    factor = times_by_option(own, machine)
    return scale.apply(own), factor / factor[np.arange(len(own)), reference][:, np.newaxis]


def _of_jobs(labels: Labels, row: NDArray[np.int64], factor: Floats | None) -> Floats | None:
    """Return factors by the applications that jobs name, 1 for those without any; None where no job has any."""
    if factor is None or not (row >= 0).any():
        return None
    found = np.ones((len(labels.names), factor.shape[1]))
    found[row >= 0] = factor[row[row >= 0]]
    return found


def _at_options(
    physics: Physics, table: MachinePhysics, machine: Machine, app: int, reference: int
) -> tuple[Floats, Floats, NDArray[np.int8], float, Floats]:
    """Return the columns of ``Kinds`` for one application and one reference.

    Raises: InputError for an application that the files do not state at the reference.
    """
    name, home = table.apps[app], int(machine.option_partition[reference])
    if table.source[app, reference] == 0 and not table.mean_only[app, home]:
        raise InputError(
            f"application {name} has no figures at its reference, {_cell(machine, reference)}",
            where=physics.where,
            hint="measure it there, or state the partition and clock on which its jobs ran",
        )
    watts = _completed(table.watts[app], machine, home, Scale.of(machine).between)
    at_first = watts[machine.option_start[:-1]][machine.option_partition]
    factor = times_by_option(at_first, machine)[np.arange(len(watts)), np.arange(len(watts))]
    time_s = _completed(table.time_s[app], machine, home, lambda s, at, to: s * float(factor[to] / factor[at]))
    base = watts[reference]
    error = np.ones((2, len(watts)))
    if physics.error > 0.0:
        drawn = [drawn_error(physics.error, physics.seed, name, partition.name) for partition in machine.partitions]
        error = np.stack(drawn, axis=1)[:, machine.option_partition]
    return watts, time_s / time_s[reference], table.source[app], float(base), error


def drawn_error(error: float, seed: int, app: str, partition: str) -> Floats:
    """Return what true watts and run times of an application on a partition are multiplied by: log-normal, mean 1.

    Other applications and partitions have no influence on the draw. Shape (2,).
    """
    name = hashlib.sha256(f"{app}\0{partition}".encode()).digest()
    rng = np.random.default_rng([seed, *np.frombuffer(name, np.uint32).tolist()])
    found: Floats = np.exp(error * rng.standard_normal(2) - error**2 / 2.0)
    return found


def _completed(stated: Floats, machine: Machine, home: int, law: Callable[[float, int, int], float]) -> Floats:
    """Return figures at every option; gaps by a law of the machine: a figure, its option, the one wanted. Shape (O,).

    Within a partition from its highest stated clock; a partition without any has, at its highest clock, the figure of
    the partition ``home`` at its own (1 where that states nothing either).
    """
    found, begin = stated.copy(), machine.option_start.tolist()
    for p in (home, *(p for p in range(len(machine.partitions)) if p != home)):
        own = range(begin[p], begin[p + 1])
        known = next((o for o in own if np.isfinite(stated[o])), None)
        if known is None:
            known = begin[p]
            found[known] = 1.0 if p == home else found[begin[home]]
        for option in own:
            if np.isnan(found[option]):
                found[option] = law(float(found[known]), known, option)
    return found


def _most_watts(table: MachinePhysics, machine: Machine) -> Floats:
    """Return the watts at which the dearest unit for an application draws its stated maximum, inf for none.

    The last row is that of other applications. Shape (A + 1, O).
    """
    from wattqueue.parts.unit_tables import greatest_factors

    most = np.ones((len(table.apps) + 1, len(machine.option_partition)))
    if table.unit_watts is not None:
        most[:-1] = greatest_factors(table.unit_watts, machine)
    found: Floats = np.nan_to_num(partition_figures(machine)[1], nan=np.inf) / most
    return found


def _refuse_above_maximum(
    physics: Physics, machine: Machine, jobs: Jobs, power: Floats, most_w: Floats, traced: NDArray[np.int64]
) -> None:
    """Raise InputError, naming the cell, where a unit would draw more than its stated maximum.

    ``power`` and ``most_w`` (n, O). A partition that the user's choice leaves out does not count, nor do watts that the
    trace states and no file does: of a job at the option ``traced`` (n,), -1 for none.
    """
    from wattqueue.sim.reference import asked_partitions

    above = power > most_w + 1e-6
    above &= np.arange(power.shape[1]) != traced[:, np.newaxis]
    if len(machine.partitions) > 1:
        asked = asked_partitions(jobs, [p.name for p in machine.partitions])[:, np.newaxis]
        above &= (asked < 0) | (asked == machine.option_partition)
    if not above.any():
        return
    k, option = (int(each[0]) for each in np.nonzero(above))
    part = machine.partitions[int(machine.option_partition[option])]
    name = "a job" if jobs.app.codes[k] < 0 else f"application {jobs.app.names[jobs.app.codes[k]]}"
    drawn_w = float(power[k, option] / most_w[k, option]) * float(part.max_w or np.nan)
    raise InputError(
        f"{name} on {_cell(machine, option)} draws {drawn_w:.6g} W on a unit, above max_w = {part.max_w:g}",
        where=physics.where,
        hint=f"job {jobs.job_id[k]}: correct its watts, the table, its reference, or max_w in the machine file",
    )
