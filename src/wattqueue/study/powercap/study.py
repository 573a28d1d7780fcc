"""The whole campaign of paper 4: thirty workloads, thirteen caps, five estimators, and EASY without a cap.

1,950 simulations and 30 baselines, run as a campaign (``wattqueue.campaign``): finished runs are kept in a folder, and
the same call resumes after a stop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wattqueue import SCHEMA_VERSION
from wattqueue.campaign.cell import Row
from wattqueue.campaign.run import run_cells
from wattqueue.campaign.shared import Shared
from wattqueue.study.powercap.cell import PowercapCell, easy_cells
from wattqueue.study.powercap.prepare import Prepared, WorkloadSelection, prepare
from wattqueue.study.powercap.published import CAPS_PERCENT, POLICIES
from wattqueue.study.powercap.results import METRICS, Groups, claim_rows, groups_of, left_out

Progress = Callable[[int, int], None]
"""Called with (finished, all) runs."""


@dataclass(frozen=True, slots=True, eq=False)
class PowercapStudyResult:
    """Every run, and the figures computed from them; ``document`` is its JSON."""

    choice: WorkloadSelection
    """How the workloads were chosen."""
    prepared: Prepared
    """The workloads."""
    rows: list[Row]
    """One row per run, baselines included."""
    groups: dict[str, Groups]
    """Figures by policy."""
    claims: list[dict[str, Any]]
    """Published figures beside ours."""
    left_out: tuple[int, ...]
    """Workloads left out as in the paper."""

    def document(self) -> dict[str, Any]:
        """Return the JSON of ``--json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "study": "powercap",
            "workloads": {
                "origin": "generated",
                **asdict(self.choice),
                "trace_jobs": self.prepared.jobs,
                "begin_s": list(self.prepared.trace.begins_s),
                "jobs": list(self.prepared.window_jobs),
                "nodes_asked_at_begin": list(self.prepared.nodes_asked),
            },
            "left_out": list(self.left_out),
            "published": [{**asdict(c.pop("claim")), **c} for c in (dict(row) for row in self.claims)],
            "averages": [self._averages(g) for g in self.groups.values()],
            "runs": self.rows,
        }

    def _averages(self, group: Groups) -> dict[str, Any]:
        """Return the means of one policy with intervals, without the workloads left out, and by cap."""
        found: dict[str, Any] = {"policy": group.policy}
        for metric in METRICS:
            e, fewer = group.interval(metric), group.without(self.left_out)
            found[metric] = {"mean": e.mean, "low": e.low, "high": e.high, "without_left_out": fewer.mean(metric)}
            found[metric]["by_cap"] = dict(
                zip(map(str, group.caps), group.values[metric].mean(axis=0).tolist(), strict=True)
            )
        return found


def run_study(
    folder: Path,
    choice: WorkloadSelection | None = None,
    *,
    policies: Sequence[str] = POLICIES,
    caps: Sequence[float] = CAPS_PERCENT,
    workers: int | None = None,
    progress: Progress | None = None,
) -> PowercapStudyResult:
    """Prepare the workloads, run the campaign and average.

    Args:
        folder: Keeps workloads and finished runs.
        choice: How the workloads are chosen; the study's own by default.
        policies: Names of the policies.
        caps: Caps in percent of the highest dynamic power.
        workers: Processes, None for one per core.
        progress: Called with (finished, all) runs.

    Raises: InputError if the trace has too few busy hours; CampaignError, OutputError.

    Reference: paper 4, sections 5, 6.4 and 6.5, Figures 4 and 5.
    """
    choice = choice or WorkloadSelection()
    shared = Shared(folder)
    prepared = prepare(choice, shared, policies)
    cells = cells_of(prepared, policies, caps)
    frame = run_cells(cells, shared=shared, store=folder, workers=workers, progress=progress)
    rows: list[Row] = frame.to_dicts()
    groups = groups_of(rows)
    return PowercapStudyResult(choice, prepared, rows, groups, claim_rows(groups), left_out(groups))


def cells_of(prepared: Prepared, policies: Sequence[str], caps: Sequence[float]) -> list[PowercapCell]:
    """Return the grid, workload by workload, so that a worker opens few of them.

    The baseline of a workload comes first: every change of turnaround is relative to it.
    """
    cells = []
    for base in easy_cells(prepared.trace):
        known = {p: prepared.ledger_options(p, base.window) for p in policies}
        cells.append(base)
        cells += [PowercapCell(prepared.trace, base.window, p, cap, known[p]) for cap in caps for p in policies]
    return cells
