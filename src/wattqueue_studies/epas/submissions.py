"""What submissions, and windows of the base, change of E-PAS against PAS: neither is in the text of paper 3.

Waits depend on how much work is queued, and so on the load between the first submission and the last, and on how many
jobs are there at second 0. PAS without windows never runs the two jobs on the whole machine (class Z): it is compared
on workloads without them.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattqueue.report.compare.stats import Estimate, with_interval
from wattqueue.report.document import Table
from wattqueue_studies.epas.gains import PUBLISHED, changes, points
from wattqueue_studies.epas.trial import BASE, CAPS_W, E_PAS, HIGHEST, EspCase
from wattqueue_studies.frame.samples import Samples

LOADS = (1.0, 1.5, 2.0, 3.0)
"""Work over what the machine can do between the first submission and the last; 2 is the study's."""
FIRSTS = (0, 50)
"""Jobs at second 0; 50 are the study's."""
HEADS = ("utilization\n%", "utilization\npoints", "workload\ntime %", "energy\n%", "mean wait\n%")


def submission_cases(idle_share: float, divide: float) -> list[EspCase]:
    """Return the settings with other submissions, and the study's own."""
    return [
        EspCase(machine, idle_share, divide, load, first) for machine in CAPS_W for first in FIRSTS for load in LOADS
    ]


def window_cases(idle_share: float, divide: float) -> list[EspCase]:
    """Return the settings in which windows of the base are varied: the study's submissions, without class Z."""
    return [EspCase(machine, idle_share, divide, whole_machine=False) for machine in CAPS_W]


def submissions_table(samples: Samples, cases: Sequence[EspCase]) -> Table:
    """Return the changes of E-PAS against PAS by load and jobs at second 0, and the printed ones."""
    rows = []
    for machine, printed in PUBLISHED.items():
        rows += [_row(samples, case, BASE, _submitted(case)) for case in cases if case.machine == machine]
        rows.append(_printed(machine, printed))
    note = "load: work over what the machine can do while jobs are submitted. The study's: load 2, 50 at second 0."
    heads = ("machine, load, jobs at second 0", *HEADS)
    return Table(heads, rows, "E-PAS against PAS by submissions (±: 95 % over seeds)", note, key="submissions")


def windows_table(samples: Samples, cases: Sequence[EspCase]) -> Table:
    """Return the changes of E-PAS against PAS with windows and without, on workloads without class Z."""
    rows = []
    for case in cases:
        rows += [_row(samples, case, base, f"{case.machine}, over {base}") for base in (BASE, HIGHEST)]
        rows.append(_printed(case.machine, PUBLISHED[case.machine]))
    note = (
        f"{HIGHEST}: jobs without a window. It never runs the jobs on the whole machine (Z), which are left out here."
    )
    return Table(("machine, base", *HEADS), rows, "E-PAS by windows of the base, without Z", note, key="windows")


def _row(samples: Samples, case: EspCase, base: str, name: str) -> list[str]:
    """Return the changes in one setting."""
    found: list[Estimate] = changes(samples, case.name, E_PAS[case.machine], base)
    more = points(samples, case.name, E_PAS[case.machine], base)
    return [name, *(with_interval(each, "+") for each in (found[0], more, *found[1:]))]


def _printed(machine: str, printed: Sequence[float]) -> list[str]:
    """Return the row of the printed changes."""
    relative, *others = (f"{value:+g}" for value in printed)
    return [f"{machine}, printed", relative, f"or {relative}", *others]


def _submitted(case: EspCase) -> str:
    """Return the name of a row."""
    return f"{case.machine}, {case.load:g}, {case.first}"
