"""Figure 7 of paper 5 by how far DVFS goes: neither the clock of slowed jobs nor the exponent of watts is in the text.

The figure says that the added wait falls with consent up to 75 % and rises from there to 100 %. Slowed jobs draw less
and hold their nodes longer: the lower their clock, the more of the machine full consent takes away.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue_studies.demand_response.tables import STEPS, shape_of
from wattqueue_studies.demand_response.trial import SavingCase
from wattqueue_studies.frame.samples import Samples

CLOCKS = (0.95, 0.89, 0.84, 0.8, 0.76, 0.72)
"""Clocks of slowed jobs, of the highest."""
WINDOWS_H = ((0.0, 24.0), (8.0, 20.0))
"""Windows of saving in which they are compared: the longest ones."""
STEP_SHARES = (0.0, 0.75, 1.0)
"""Shares of consent that the shape needs."""
FITTED = (2.0, 0.8)
"""Exponent and clock whose shape is that of Figure 7: fitted to it."""


def depth_cases(limit_w: float, alphas: Sequence[float]) -> dict[str, SavingCase]:
    """Return the settings of experiment 2 by name: window, exponent and clock."""
    found = [
        SavingCase("2", *window, limit_w, alpha, clock=clock)
        for window in WINDOWS_H
        for alpha in alphas
        for clock in CLOCKS
    ]
    return {case.name: case for case in found}


def depth_table(samples: Samples, cases: Sequence[SavingCase], rules: Sequence[str]) -> Table:
    """Return the steps of the added wait by exponent and clock, and under which rules and windows the shape holds."""
    windows = list(dict.fromkeys((case.begin_h, case.end_h) for case in cases))
    rows = []
    for alpha, clock in dict.fromkeys((case.alpha, case.clock) for case in cases):
        of = [c for w in windows for c in cases if (c.alpha, c.clock, (c.begin_h, c.end_h)) == (alpha, clock, w)]
        steps = [estimate(samples.of(of[0].name, rules[0], metric)) for metric in STEPS]
        shapes = [shape_of(samples, case.name, rule) for rule in rules for case in of]
        rows.append([f"alpha {alpha:g}, clock {clock:g}", *(with_interval(s, "+", 0) for s in steps), *shapes])
    heads = [f"{rule.removeprefix('dr-')}\n{begin:g}-{end:g} h" for rule in rules for begin, end in windows]
    first = f"{rules[0].removeprefix('dr-')} {windows[0][0]:g}-{windows[0][1]:g} h"
    title = "Figure 7 by how far DVFS goes: does the wait fall up to 75 % consent and rise after it?"
    note = f"Steps: {first}. Clock: that of slowed jobs, of the highest. Above idle, watts go with clock to alpha."
    return Table(
        ("watts and clock", "75 % less\n0 %, s", "100 % less\n75 %, s", *heads), rows, title, note, key="depth"
    )
