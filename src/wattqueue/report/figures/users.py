"""The figure of energy by user: who used most of it, and how long they waited.

Energy of a job is its nodes times its run time times its mean watts per unit, so the bars add up to the metric
``job_energy_j``. Idle nodes belong to no user and are left out.
"""

from __future__ import annotations

import numpy as np

from wattqueue.report import words
from wattqueue.report.figure import Axis, Figure
from wattqueue.report.run import RunData

MOST = 10  # users with a bar of their own


def figure(run: RunData) -> Figure | None:
    """Return the energy of the users with most of it, the others in one bar; None where users or watts are unknown.

    Columns, one row per bar, the largest first:
        name: User, or ``all others``.
        energy_j: Energy of the user's jobs.
        share: Share of the energy of all jobs with a known user, 0..1.
        jobs: Number of jobs that ran.
        wait_s: Mean wait of these jobs.
    """
    good = run.ran & (run.jobs.user.codes >= 0) & np.isfinite(run.unit_w)
    if not good.any():
        return None
    code = run.jobs.user.codes[good]
    users = len(run.jobs.user.names)
    held = (run.jobs.nodes * (run.end_s - run.start_s) * run.unit_w)[good]
    energy = np.bincount(code, held, minlength=users)
    jobs = np.bincount(code, minlength=users)
    wait = np.bincount(code, (run.start_s - run.jobs.submit_s)[good], minlength=users)
    order = np.argsort(-energy, kind="stable")
    order = order[jobs[order] > 0]
    best, rest = order[:MOST], order[MOST:]
    names = [run.jobs.user.names[k] for k in best]
    sums = np.column_stack((energy, jobs, wait))
    shown = sums[best]
    if len(rest):
        names.append("all others")
        shown = np.vstack((shown, sums[rest].sum(axis=0)))
    scale, prefix = words.prefix_of(float(shown[:, 0].max()) / 3_600)
    return Figure(
        "users",
        "Energy by user",
        says(len(order), energy[order]),
        Axis("energy of jobs", f"{prefix}Wh", scale * 3_600),
        Axis("user"),
        {
            "name": np.array(names, object),
            "energy_j": shown[:, 0],
            "share": shown[:, 0] / max(float(energy.sum()), 1e-300),
            "jobs": shown[:, 1].astype(np.int64),
            "wait_s": shown[:, 2] / shown[:, 1],
        },
        {"name": "user", "energy_j": "energy", "share": "share", "jobs": "jobs", "wait_s": "mean wait"},
    )


def says(users: int, energy: np.ndarray) -> str:
    """Return how few users account for half of the energy.

    ``energy`` are the energies of all users in falling order. Shape (users,).
    """
    total = float(energy.sum())
    if users == 1:
        return f"One user took all {words.energy(total)}."
    half = int(np.searchsorted(np.cumsum(energy), 0.5 * total) + 1)
    few = "One user" if half == 1 else f"{half} users"
    return f"{few} of {users} took half of the {words.energy(total)} that jobs drew."
