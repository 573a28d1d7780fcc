"""The whole campaign of paper 4: thirty workloads, thirteen caps, five estimators, and EASY without a cap."""

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
from wattqueue.study.powercap.prepare import Choice, Prepared, prepare
from wattqueue.study.powercap.published import CAPS_PERCENT, POLICIES
from wattqueue.study.powercap.results import METRICS, Groups, claim_rows, groups_of, left_out

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class StudyResult:
    """Every run, and the figures made of them; ``document`` is its JSON."""

    choice: Choice
    prepared: Prepared
    rows: list[Row]
    groups: dict[str, Groups]
    claims: list[dict[str, Any]]
    left_out: tuple[int, ...]

    def document(self) -> dict[str, Any]:
        """The JSON of ``--json``."""
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
    choice: Choice | None = None,
    *,
    policies: Sequence[str] = POLICIES,
    caps: Sequence[float] = CAPS_PERCENT,
    workers: int | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Prepare the workloads, run the campaign, average. ``folder`` keeps workloads and finished runs.

    Raises: InputError where the trace has too few busy hours; CampaignError, OutputError.

    Reference: paper 4, sections 5, 6.4 and 6.5, Figures 4 and 5.
    """
    choice = choice or Choice()
    shared = Shared(folder)
    prepared = prepare(choice, shared, policies)
    cells = cells_of(prepared, policies, caps)
    frame = run_cells(cells, shared=shared, shelf=folder, workers=workers, progress=progress)
    rows: list[Row] = frame.to_dicts()
    groups = groups_of(rows)
    return StudyResult(choice, prepared, rows, groups, claim_rows(groups), left_out(groups))


def cells_of(prepared: Prepared, policies: Sequence[str], caps: Sequence[float]) -> list[PowercapCell]:
    """The grid, workload by workload, so that a worker opens few of them."""
    cells = []
    for base in easy_cells(prepared.trace):
        known = {p: prepared.ledger_options(p, base.window) for p in policies}
        cells.append(base)
        cells += [PowercapCell(prepared.trace, base.window, p, cap, known[p]) for cap in caps for p in policies]
    return cells
