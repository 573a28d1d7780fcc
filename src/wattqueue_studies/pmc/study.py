"""The study of paper 2, sections 2 and 4.3: how well counters predict the watts of every socket."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.report.document import Block
from wattqueue_studies.clustercockpit import NodeSeries, read_node_series
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples
from wattqueue_studies.pmc.budget import fill_budget
from wattqueue_studies.pmc.events import COMPONENTS
from wattqueue_studies.pmc.nodes import check_nodes, node_rows, node_table
from wattqueue_studies.pmc.tables import pictures, processes, score, tables
from wattqueue_studies.sockets import PmcTrial, Values, sockets_figures

TOLD = published("wattqueue_studies.pmc")
"""What the paper prints (claims.toml)."""
LEAST_SOCKETS = 64
"""Sockets that the widest application needs."""


@dataclass(frozen=True, slots=True)
class PmcStudy:
    """The study of paper 2, sections 2 and 4.3.

    Attributes:
        seeds: Draws of the sockets.
        sockets: Sockets of each draw; the paper has 256.
        nodes: Series of real nodes (CSV of ClusterCockpit), or None.
    """

    seeds: int = 30
    sockets: int = 256
    nodes: Path | None = None

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Generate, train, predict and compare with the paper.

        Raises: InputError for no seed, too few sockets, and a file that cannot be used, before the work.
        """
        if self.seeds < 1 or self.sockets < LEAST_SOCKETS:
            raise InputError(
                f"{self.seeds} seeds of {self.sockets} sockets",
                where="--seeds, --sockets",
                hint=f"at least 1 and {LEAST_SOCKETS}",
            )
        series = None if self.nodes is None else read_node_series(self.nodes)
        return self.report(self.draw(progress), series)

    def draw(self, progress: Progress | None = None) -> Samples:
        """Return the figures of all draws."""
        drawn: list[Values] = []
        for seed in range(self.seeds):
            trial = PmcTrial(seed, self.sockets)
            drawn.append(score(trial) | processes(trial) | fill_budget(trial) | sockets_figures(trial))
            if progress:
                progress(seed + 1, self.seeds)
        return Samples({key: np.array([values[key] for values in drawn]) for key in drawn[0]}, scores=True)

    def report(self, samples: Samples, series: list[NodeSeries] | None) -> StudyReport:
        """Return tables, pictures and claims; the pictures show the first draw."""
        found, trial = TOLD.judge(samples), PmcTrial(0, self.sockets)
        parts: list[Block] = [*tables(samples)]
        notes, rows = [*TOLD.notes], list[dict[str, object]]()
        if series is None:
            notes.append("Real nodes: skipped, no data given (--nodes FILE: ClusterCockpit's two jobs on emmy).")
        else:
            checks = check_nodes(series)
            parts.append(node_table(checks))
            rows = node_rows(checks)
            notes.append(_about_nodes(series))
        figures: dict[str, Any] = {
            "generated": True,
            "seeds": self.seeds,
            "sockets": self.sockets,
            "components": {app: [COMPONENTS[c] for c in subset] for app, subset in trial.components[False].items()},
            "results": samples.rows("model"),
            "nodes": rows,
        }
        return TOLD.report(
            found,
            about=f"{self.seeds} seeds of {self.sockets} generated sockets, 11 training kernels, 16 applications.",
            lede=f"Three models on **generated** sockets that differ. {found.summary}.",
            parts=parts,
            notes=notes,
            figures=figures,
            drawn=pictures(trial),
        )


def _about_nodes(series: list[NodeSeries]) -> str:
    """Return what was read of the real nodes."""
    samples, left_out = sum(len(s.watts) for s in series), sum(s.left_out for s in series)
    return (
        f"Real nodes: {samples:,} samples of {len(series)} node series; {left_out:,} with a gap or without watts were "
        "left out. The ratio of PR is that of the same job's first half: no other benchmark ran on these nodes. A node "
        "has two sockets."
    )
