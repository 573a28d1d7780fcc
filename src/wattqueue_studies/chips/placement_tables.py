"""Tables of the simulations on measured devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wattqueue.policy.oracles import marked_policy
from wattqueue.report.compare.stats import with_interval
from wattqueue.report.document import Table
from wattqueue.report.figure import Axis, Drawn
from wattqueue.report.figures import boxes
from wattqueue.report.figures.boxes import Box
from wattqueue_studies.chips.budgets import BASE, ONE_RANK, ORACLE
from wattqueue_studies.chips.limits import BY_NUMBER, Simulated
from wattqueue_studies.frame.samples import Samples, change

CHANGES = {"turnaround_s": "mean turnaround", "energy_j": "energy"}
ABOVE = 0.005
"""Per cent above the budget that count as none."""


def tables(found: Simulated) -> Iterator[Table]:
    """Yield all tables over the draws."""
    for group, settings in grouped(found.budgets).items():
        for metric, title in CHANGES.items():
            yield changes(found.budgets, settings, metric, BASE, f"{group}: {title} over {BASE} (%)")
        yield excess(found.budgets, settings, f"{group}: highest power over the budget (%)")
    for metric, title in CHANGES.items():
        yield own_rank(found.budgets, metric, f"Own rank (slurm-vtp) over one rank: {title} (%)")
    for group, settings in grouped(found.limits).items():
        for metric, title in {"run_s": "mean run time", "turnaround_s": "mean turnaround"}.items():
            yield changes(found.limits, settings, metric, BY_NUMBER, f"{group}: {title} over {BY_NUMBER} (%)")


def grouped(samples: Samples) -> dict[str, dict[str, str]]:
    """Return the settings by group, then by the share of the budget or limit: what the columns show."""
    found: dict[str, dict[str, str]] = {}
    for setting in samples.settings:
        name, share, *load = setting.split(", ")
        found.setdefault(", ".join((name, *load)), {})[share] = setting
    return found


def shown(policy: str) -> str:
    """Return the name of a policy, marked where it reads the truth."""
    return marked_policy(policy) if policy == ORACLE else policy


def changes(samples: Samples, settings: Mapping[str, str], metric: str, base: str, title: str) -> Table:
    """Return the change of a metric over a policy by budget, with intervals over the draws."""
    rows = [
        [
            shown(p),
            *(with_interval(change(*samples.pair(s, p, base, metric))) for s in settings.values()),
        ]
        for p in samples.policies
        if p != base
    ]
    return Table(("policy", *settings), rows, title)


def excess(samples: Samples, settings: Mapping[str, str], title: str) -> Table:
    """Return by how much runs exceed the budget: mean over the draws, and the share of draws that do."""
    rows = []
    for policy in samples.policies:
        cells = []
        for s in settings.values():
            over, share = (samples.of(s, policy, m).mean() for m in ("over_percent", "above"))
            cells.append(f"{over:+.1f}" + (f" ({share:.0f} %)" if share > ABOVE else ""))
        rows.append([shown(policy), *cells])
    return Table(("policy", *settings), rows, title, "In brackets the share of draws above the budget.")


def own_rank(samples: Samples, metric: str, title: str) -> Table:
    """Return what a rank for each application wins over one rank, by application and budget."""
    rows = []
    groups = grouped(samples)
    for group, settings in groups.items():
        for base in (ONE_RANK, "slurm-prvp", "slurm-peva"):
            each = (change(*samples.pair(s, "slurm-vtp", base, metric)) for s in settings.values())
            rows.append([f"{group}, over {base}", *map(with_interval, each)])
    shares = next(iter(groups.values()))
    note = "Below 0: the own rank wins. Policies that exceed the budget run more jobs: see the tables of excess."
    return Table(("application by benchmark", *shares), rows, title, note)


def pictures(found: Simulated) -> Iterator[Drawn]:
    """Yield the change of mean turnaround by placement under limits of each device, over the draws."""
    samples = found.limits
    values = {}
    for group, settings in grouped(samples).items():
        if not group.endswith("load 0.8"):
            continue
        limit, setting = next(iter(settings.items()))
        for policy in samples.policies[1:]:
            own, base = samples.pair(setting, policy, BY_NUMBER, "turnaround_s")
            values[f"{group.partition(',')[0]}, {limit}: {policy}"] = 100.0 * (own / base - 1.0)
    axis = Axis(f"mean turnaround over {BY_NUMBER}", "%")
    title = "Limits of each device: job time by placement"
    says = "Measured devices, generated jobs, load 0.8; one box over the draws."
    box = {name: Box.of(v) for name, v in values.items()}
    yield boxes.figure("limits", title, says, axis, box, rows="placement", from_zero=False), "boxes"


def rows(found: Simulated) -> list[dict[str, object]]:
    """Return every figure for JSON, draw by draw."""
    parts = (("budgets", found.budgets), ("limits", found.limits))
    return [{"part": part, **row} for part, samples in parts for row in samples.rows()]
