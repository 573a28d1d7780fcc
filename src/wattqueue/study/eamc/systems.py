"""The two machines of paper 1 with the watts and times that jobs really have on them.

In the paper prediction and truth are one: the scheduler uses the same profiles from which the simulation computes
energy. The estimator here therefore serves as both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats.ear.files import read_apps_csv, read_coefficients_csv
from wattqueue.formats.machine.file import load_machine
from wattqueue.model.app_profiles import AppProfiles, ear_profiles
from wattqueue.model.eamc_table1 import PARTITIONS, table1_profiles
from wattqueue.model.machine import Machine
from wattqueue.parts.estimator.ear import Ear

SYSTEMS = {"p1/p2": "eamc-p1p2", "p1/p3": "eamc-p1p3"}
"""Machines of the catalogue. Idle nodes count nothing, as in the paper's sums of job energy."""


@dataclass(frozen=True, slots=True)
class System:
    """A machine and its applications' profiles."""

    name: str
    """Name in the paper: p1/p2 or p1/p3."""
    machine: Machine
    """The machine."""
    estimator: Ear
    """Watts and times by option: prediction and truth alike, as in the paper."""

    @property
    def partitions(self) -> tuple[str, ...]:
        """Return the names of the partitions."""
        return tuple(p.name for p in self.machine.partitions)


def profiles_from(coefficients: Path | None, apps: Path | None) -> AppProfiles:
    """Return profiles of p1, p2 and p3: the first two by EAR's coefficients if their files are given, else Table 1.

    Raises: InputError if only one of the files is given, they do not belong together, or they hold no p1 and p2.
    """
    if coefficients is None and apps is None:
        return table1_profiles()
    if coefficients is None or apps is None:
        raise InputError(
            "the study needs both files, or none", where="--coefficients, --apps", hint="--coefficients C --apps A"
        )
    tables = read_coefficients_csv(coefficients)
    missing = [name for name in PARTITIONS[:2] if name not in tables]
    if missing:
        raise InputError(f"no coefficients of module {', '.join(missing)}", where=coefficients)
    names, metrics = read_apps_csv(apps)
    if not set(metrics) <= set(range(len(tables))):
        raise InputError(f"module_index {max(metrics)}: the coefficients have {len(tables)} modules", where=apps)
    by_name = {module: metrics[i] for i, module in enumerate(tables) if i in metrics}
    found = ear_profiles(names, tables, by_name)
    table1 = table1_profiles(("p3",))
    if names != table1.apps:
        raise InputError(f"applications {', '.join(names)}: the study's are 1 to 8", where=apps)
    source = "p1, p2: EAR coefficients; p3: Table 1 of the paper (slope of watts assumed)"
    return AppProfiles(names, {**found.hardware, **table1.hardware}, source)


def systems(profiles: AppProfiles) -> dict[str, System]:
    """Return p1/p2 and p1/p3, each partition at the frequencies that have a profile."""
    built = {}
    for name, machine in SYSTEMS.items():
        base = load_machine(machine)
        parts = tuple(
            replace(p, frequencies_hz=tuple(profiles.on(p.name).frequency_hz.tolist())) for p in base.partitions
        )
        # cap_scope of these machines is "jobs" (rule 14 of docs/semantics.md): a cap covers running jobs only.
        built[name] = System(name, replace(base, partitions=parts), Ear(profiles=profiles))
    return built
