"""What E-PAS changes against PAS: change by change, over idle watts, and beside what the paper prints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wattqueue.report.compare.stats import Estimate, estimate, with_interval
from wattqueue.report.document import Table
from wattqueue_studies.epas.trial import BASE, E_PAS, VARIANTS
from wattqueue_studies.frame.samples import Samples, change

METRICS = ("utilization_percent", "makespan_s", "energy_j", "wait_s")
"""What the paper compares in section 5.2."""
PUBLISHED = {"bull": (10.0, -15.0, -3.2, -56.0), "montblanc": (2.0, -10.0, -9.0, -38.0)}
"""Changes that it prints, in per cent; whether those of utilization are relative or points is not said."""
HEADS = ("utilization\n%", "utilization\npoints", "workload\ntime %", "energy\n%", "mean wait\n%", "shape\nholds")


def machine_of(setting: str) -> str:
    """Return the machine of a setting."""
    return setting.partition(",")[0]


def changes(samples: Samples, setting: str, policy: str, base: str = BASE) -> list[Estimate]:
    """Return the changes of a policy against PAS: METRICS relative, in per cent, with intervals over draws."""
    return [change(*samples.pair(setting, policy, base, m)) for m in METRICS]


def points(samples: Samples, setting: str, policy: str, base: str = BASE) -> Estimate:
    """Return the change of utilization in points."""
    own, other = samples.pair(setting, policy, base, METRICS[0])
    return estimate(own - other)


def shape_holds(found: Sequence[Estimate]) -> bool:
    """Return whether all four changes have the signs that the paper prints: more use, less time, energy and wait."""
    return found[0].mean > 0 and all(each.mean < 0 for each in found[1:])


def gains_table(samples: Samples, settings: Sequence[str]) -> Table:
    """Return the changes in every setting, and what is printed with the difference."""
    rows = []
    for setting in settings:
        found = changes(samples, setting, E_PAS[machine_of(setting)])
        rows.append(_row(setting, found, points(samples, setting, E_PAS[machine_of(setting)])))
    for machine, printed in PUBLISHED.items():
        of = [s for s in settings if machine_of(s) == machine]
        relative, *others = (f"{value:+g}" for value in printed)
        rows.append([f"{machine}, printed", relative, "or " + relative, *others, ""])
        for setting in of:
            found = changes(samples, setting, E_PAS[machine])
            less = [each.mean - value for each, value in zip(found, printed, strict=True)]
            near = points(samples, setting, E_PAS[machine]).mean - printed[0]
            rows.append([f"{setting}: ours less printed", *_plain([less[0], near, *less[1:]]), ""])
    note = (
        "The cap, the workload and the curves are the same for both policies of a row; pairs of one seed are compared."
    )
    return Table(("setting", *HEADS), rows, "E-PAS against PAS (±: 95 % over seeds)", note, key="gains")


def variants_table(samples: Samples, setting: str) -> Table:
    """Return the changes of the other readings of E-PAS in one setting, with the time above the cap."""
    machine = machine_of(setting)
    name = E_PAS[machine]
    rows = []
    for policy in (name, *(name + variant for variant in VARIANTS[machine])):
        base = "pas-no-backfill" if policy.endswith("-no-backfill") else BASE
        found = [change(*samples.pair(setting, policy, base, m)) for m in METRICS]
        over_s, over_w = (samples.of(setting, policy, m) for m in ("over_s", "over_w"))
        gap = estimate(samples.of(setting, policy, "gap_percent"))
        cells = _plain([each.mean for each in found])
        rows.append([policy, *cells, f"{gap.mean:.1f}", f"{over_s.mean():.1f}", f"{np.max(over_w):.1f}"])
    heads = (
        *("policy", "utilization\n%", "workload\ntime %", "energy\n%", "mean wait\n%"),
        *("gap\n% of cap", "above the cap\ns a run", "most above\nthe cap W"),
    )
    note = "Against pas, and pas-no-backfill where nothing is backfilled. gap: counted less drawn."
    return Table(heads, rows, f"{setting}: other readings of E-PAS", note, key=f"readings-{machine}")


def _row(name: str, found: Sequence[Estimate], more: Estimate) -> list[str]:
    cells = [with_interval(each, "", 1) for each in (found[0], more, *found[1:])]
    known = not np.isnan([each.mean for each in found]).any()
    return [name, *cells, "–" if not known else "yes" if shape_holds(found) else "no"]


def _plain(values: Sequence[float]) -> list[str]:
    return ["–" if np.isnan(value) else f"{value:+.1f}" for value in values]
