"""Compute how much of the energy of jobs is measured.

An import labels the energy of each job in the column ``energy_quality`` (docs/guide/import.md): *measured* where the
job had its nodes to itself, *attributed* where nodes were shared or it is unknown, *modelled* where a formula gave it.
Jobs without any watts are simulated with the machine's figures. A total energy means little without these shares, so
every page that prints one prints them beside it.
"""

from __future__ import annotations

import numpy as np

from wattqueue.model.jobs import Floats, Jobs

QUALITY = "energy_quality"
UNSTATED = "unstated"
MACHINE = "machine"
ORIGIN_NAMES = {
    "measured": "measured",
    "attributed": "attributed (shared nodes)",
    "modelled": "modelled",
    "generated": "generated, not measured",
    UNSTATED: "from the trace, which does not state whether it was measured",
    MACHINE: "assumed from the machine's figures",
}
"""How each origin is printed, in the order in which they are listed."""


def energy_origin(jobs: Jobs, energy_j: Floats) -> dict[str, float]:
    """Return the share of the energy by origin, a key of ``ORIGIN_NAMES``; empty where no energy is known.

    Args:
        jobs: The workload. Its ``extra`` may hold ``energy_quality``, one text per job.
        energy_j: Energy of each job in the run, NaN or 0 where it never ran. Shape (n,).
    """
    energy = np.nan_to_num(energy_j)
    total = float(energy.sum())
    if total <= 0:
        return {}
    watts = jobs.mean_power_w if jobs.mean_power_w is not None else jobs.max_power_w
    known = np.zeros(len(jobs), np.bool_) if watts is None else np.isfinite(watts)
    usual = "generated" if jobs.origin == "generated" else UNSTATED
    label = np.full(len(jobs), usual, object)
    if QUALITY in jobs.extra and jobs.origin != "generated":
        stated = np.array(["" if v is None else str(v) for v in jobs.extra[QUALITY]], object)
        label = np.where(np.isin(stated, list(ORIGIN_NAMES)), stated, usual)
    label = np.where(known, label, MACHINE)
    found = {kind: float(energy[label == kind].sum()) / total for kind in ORIGIN_NAMES}
    return {kind: share for kind, share in found.items() if share > 0}


def origin_sentence(shares: dict[str, float]) -> str:
    """Return the shares as text, ``62 % measured, 38 % assumed from the machine's figures``; empty for no shares."""
    if len(shares) == 1:
        return ORIGIN_NAMES[next(iter(shares))]
    return ", ".join(f"{100 * shares[kind]:.2g} % {words}" for kind, words in ORIGIN_NAMES.items() if kind in shares)
