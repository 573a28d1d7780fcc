"""The two machines of paper 1 with the figures that jobs really have on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats.ear import read_apps_csv, read_coefficients_csv
from wattqueue.formats.machine_toml import load_machine
from wattqueue.model.app_profiles import Profiles, ear_profiles
from wattqueue.model.eamc_table1 import PARTITIONS, table1_profiles
from wattqueue.model.machine import Machine
from wattqueue.parts.estimator.ear import Ear

SYSTEMS = {"p1/p2": "eamc-p1p2", "p1/p3": "eamc-p1p3"}
"""Machines of the catalogue. Idle nodes count nothing, as in the paper's sums of job energy."""


@dataclass(frozen=True, slots=True)
class System:
    """A machine and the estimator that knows its applications: prediction and truth alike, as in the paper."""

    name: str
    machine: Machine
    estimator: Ear

    @property
    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions."""
        return tuple(p.name for p in self.machine.partitions)


def profiles_from(coefficients: Path | None, apps: Path | None) -> Profiles:
    """Profiles of p1, p2 and p3: the first two by EAR's coefficients where their files are given, else Table 1.

    Raises: InputError where only one of the files is given, they do not fit, or they hold no p1 and p2.
    """
    if coefficients is None and apps is None:
        return table1_profiles()
    if coefficients is None or apps is None:
        raise InputError("the study needs coefficients and applications together", mend="--coefficients C --apps A")
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
    return Profiles(names, {**found.hardware, **table1.hardware}, source)


def systems(profiles: Profiles) -> dict[str, System]:
    """p1/p2 and p1/p3, each partition at the frequencies that have a profile."""
    built = {}
    for name, machine in SYSTEMS.items():
        base = load_machine(machine)
        parts = tuple(
            replace(p, frequencies_hz=tuple(profiles.on(p.name).frequency_hz.tolist())) for p in base.partitions
        )
        # The ledger counts jobs alone: a machine-wide cap row is about what running jobs draw.
        built[name] = System(name, replace(base, partitions=parts), Ear(profiles=profiles))
    return built
