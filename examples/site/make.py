"""Write the files of this example: two days of a small site. Everything is generated; no figure was measured.

python make.py writes the same files again, into the folder in which it is called.
"""

import csv
from datetime import timedelta
from pathlib import Path

import numpy as np

FIRST = 1788739200  # Monday, 7 September 2026, 00:00 UTC
NODES = {"cpu": 16, "mem": 8}
CLOCKS_GHZ = {"cpu": (2.4, 1.8), "mem": (2.8, 2.0)}
# Of each application: run time (s), watts, cycles and memory transactions per instruction, on cpu and on mem.
APPS = {
    "lammps": ((100.0, 390.0, 0.45, 1.0), (131.0, 372.0, 0.47, 1.0)),
    "vasp": ((100.0, 410.0, 0.60, 8.0), (109.0, 385.0, 0.62, 7.0)),
    "hpcg": ((100.0, 345.0, 2.60, 60.0), (71.0, 338.0, 1.90, 48.0)),
    "stream": ((100.0, 330.0, 3.50, 90.0), (62.0, 322.0, 2.40, 70.0)),
}
PER_INSTRUCTION = -0.0066
"""Cycles that a transaction costs less at the lower clock, where the memory is relatively faster."""


def write(name: str, rows: list[list[object]]) -> None:
    """Write a CSV."""
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def coefficients() -> list[list[object]]:
    """Return EAR's coefficients of the two kinds of nodes: to each clock from itself, and to the lower one."""
    rows: list[list[object]] = [["module", "f_ref_ghz", "f_target_ghz", "available", *"ABCDEF"]]
    for name, (high, low) in CLOCKS_GHZ.items():
        rows += [[name, high, high, 1, 1, 0, 0, 1, 0, 0], [name, low, low, 1, 1, 0, 0, 1, 0, 0]]
        rows.append([name, high, low, 1, 0.72, 0.25, 4.0, 1.0, PER_INSTRUCTION, 0.0])
    return rows


def dump(rng: np.random.Generator, jobs: int) -> list[list[object]]:
    """Return the jobs as sacct prints them; all ran on the nodes cpu, alone."""
    fields = (
        "JobID JobName User Partition Submit Start End ElapsedRaw Timelimit State NNodes ConsumedEnergyRaw NodeList"
    )
    rows: list[list[object]] = [list[object](fields.split())]
    submit = np.sort(rng.uniform(0.0, 2 * 86_400.0, jobs)).astype(int)
    free_s = np.zeros(NODES["cpu"])  # when each node is free again
    for k in range(jobs):
        user = int(rng.integers(6))
        app = list(APPS)[(user + int(rng.integers(2))) % len(APPS)]
        run = int(np.clip(rng.lognormal(8.3, 0.9), 300, 6 * 3600))
        limit = int(np.ceil(run / rng.uniform(0.2, 1.0) / 900) * 900)
        nodes = int(2 ** rng.integers(0, 4))
        chosen = np.sort(np.argsort(free_s, kind="stable")[:nodes])
        start = int(max(submit[k], free_s[chosen].max()))
        free_s[chosen] = start + run
        joules = int(APPS[app][0][1] * rng.normal(1.0, 0.02) * nodes * run)
        rows.append(
            [k + 1, app, f"user{user}", "batch", FIRST + int(submit[k]), FIRST + start, FIRST + start + run, run,
             str(timedelta(seconds=limit)), "COMPLETED", nodes, joules, f"cpu[{','.join(map(str, chosen))}]"]
        )  # fmt: skip
    return rows


def units(rng: np.random.Generator) -> list[list[object]]:
    """Return watts of each application on each node: those of its kind, times a factor of the node."""
    kind = [name for name, count in NODES.items() for _ in range(count)]
    factor = np.exp(np.clip(rng.normal(0.0, 0.05, len(kind)), -0.1, 0.1))
    rows: list[list[object]] = [["app", "unit", "watts"]]
    for app, figures in APPS.items():
        watts = dict(zip(NODES, (figure[1] for figure in figures), strict=True))
        rows += [[app, unit, round(watts[kind[unit]] * factor[unit], 1)] for unit in range(len(kind))]
    return rows


rng = np.random.default_rng(7)
write("coefficients.csv", coefficients())
metrics = [[app, module, *APPS[app][module]] for app in APPS for module in range(len(NODES))]
write("apps.csv", [["app_id", "module_index", "time_s", "power_w", "cpi", "tpi"], *metrics])
write("units.csv", units(rng))
lines = ["|".join(map(str, row)) for row in dump(rng, 150)]
Path("sept.psv").write_text("\n".join(lines) + "\n", encoding="utf-8")
