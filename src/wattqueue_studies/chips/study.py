"""The study of measured chips: spread, ranks that carry over, savings by one rank, policies simulated on the chips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.unit_factors import write_unit_factors
from wattqueue.policy.oracles import marked_policy
from wattqueue.report.compare.stats import Estimate, with_interval
from wattqueue.report.document import Block, Table
from wattqueue.report.figure import Axis, Drawn
from wattqueue.report.figures import boxes
from wattqueue.report.figures.boxes import Box
from wattqueue_studies.chips import limits
from wattqueue_studies.chips.budgets import ORACLE
from wattqueue_studies.chips.chip_runs import (
    ChipPair,
    ChipRuns,
    chip_medians,
    chip_pair,
    measured_table,
    read_chip_runs,
)
from wattqueue_studies.chips.devices import devices
from wattqueue_studies.chips.extensions.learning import node_figures
from wattqueue_studies.chips.extensions.sites import MeasuredPair, Sites
from wattqueue_studies.chips.extensions.tables import ExtensionFigures, compare_extensions, document
from wattqueue_studies.chips.extensions.tables import tables as extension_tables
from wattqueue_studies.chips.limits import Simulated, simulate_devices
from wattqueue_studies.chips.placement_tables import pictures, tables
from wattqueue_studies.chips.placement_tables import rows as placement_rows
from wattqueue_studies.chips.ranks import RankRow, SavingRow, rank_rows, saving_rows
from wattqueue_studies.clustercockpit import read_node_series
from wattqueue_studies.frame.claim import ClaimTable, Judged
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport

TOLD = published("wattqueue_studies.chips")
"""What the description of the data states (claims.toml)."""
PAIRS = (("sgemm", "pagerank"), ("bert", "resnet"))
"""Applications that ran on the same chips."""
BENCHMARKS = ("pagerank", "bert")
"""The application of each pair by which one rank is made: pagerank is below the limit, bert ran more often."""
SUFFIXES = (".csv.gz", ".csv")


@dataclass(frozen=True, slots=True)
class ChipsStudy:
    """The study of measured chips.

    Attributes:
        folder: Folder with a file of runs per application.
        factors: Where to write the measured unit factors (CSV), or None.
        draws: Draws of jobs for the simulations.
        threads: Simulations at a time.
        extensions: Whether to compare also what lies beyond paper 2, on these chips and on generated sockets.
        nodes: Series of real nodes for it (CSV of ClusterCockpit), or None.
    """

    folder: Path
    factors: Path | None = None
    draws: int = 20
    threads: int = 2
    extensions: bool = False
    nodes: Path | None = None

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Read the runs, rank the chips, simulate policies on them, and compare with what is published.

        Raises: InputError for a missing file or one that cannot be used, and for no draw.
        """
        runs = {app: self._read(app) for pair in PAIRS for app in pair}
        if self.factors is not None:
            write_unit_factors(self.factors, measured_table(list(runs.values())))
        pairs = [chip_pair(runs[a], runs[b]) for a, b in PAIRS]
        ranks: list[RankRow] = []
        savings: list[SavingRow] = []
        for pair in pairs:
            ranks += rank_rows(pair)
            savings += saving_rows(pair)
        found = [devices(pair, [runs[app] for app in pair.apps]) for pair in pairs]
        simulated = simulate_devices(found, BENCHMARKS, self.draws, self.threads, progress)
        more = self._extensions(pairs, runs, progress) if self.extensions else None
        return report(list(runs.values()), pairs, ranks, savings, simulated, more)

    def _extensions(
        self, pairs: Sequence[ChipPair], runs: Mapping[str, ChipRuns], progress: Progress | None
    ) -> ExtensionFigures:
        """Return what lies beyond paper 2. Raises: InputError for nodes that cannot be used."""
        sites: dict[str, Sites] = {
            " + ".join(pair.apps): MeasuredPair(pair, (runs[pair.apps[0]], runs[pair.apps[1]]), benchmark)
            for pair, benchmark in zip(pairs, BENCHMARKS, strict=True)
        }
        nodes = node_figures(read_node_series(self.nodes)) if self.nodes else {}
        return compare_extensions(sites, nodes, self.draws, self.threads, progress)

    def _read(self, app: str) -> ChipRuns:
        """Return the runs of one application. Raises: InputError."""
        found = [self.folder / f"{app}{s}" for s in SUFFIXES if (self.folder / f"{app}{s}").is_file()]
        if not found:
            raise InputError(
                f"no runs of {app}", where=self.folder, hint=f"{app}.csv or {app}.csv.gz, as the PAL data set has them"
            )
        return read_chip_runs(found[0], app)


def report(
    runs: Sequence[ChipRuns],
    pairs: Sequence[ChipPair],
    ranks: list[RankRow],
    savings: list[SavingRow],
    simulated: Simulated,
    more: ExtensionFigures | None = None,
) -> StudyReport:
    """Return tables, pictures and claims."""
    told = claims(runs, ranks, simulated)
    chips = len({chip for one in runs for chip in one.chips})
    common = "; ".join(f"{' and '.join(p.apps)} on {len(p.chips)} common chips" for p in pairs)
    total = sum(len(one.chip) for one in runs)
    parts: list[Block] = [spread_table(runs), rank_table(ranks)]
    parts += [saving_table(savings, quantity) for quantity in ("watts", "time")]
    parts += tables(simulated)
    if more is not None:
        parts += extension_tables(more)
    return TOLD.report(
        told,
        about=(
            f"{total:,} runs of {len(runs)} applications, {chips} names of chips; {common}. Policies: "
            f"{simulated.draws} draws of generated jobs. {marked_policy(ORACLE)} reads the truth."
        ),
        lede=f"What one benchmark says about another application on the same chips. {told.summary}.",
        parts=parts,
        figures={
            "measured": True,
            "spread": [spread(one) for one in runs],
            "ranks": [_rank_document(row) for row in ranks],
            "savings": [_saving_document(row) for row in savings],
            "draws": simulated.draws,
            "oracles": [ORACLE, limits.ORACLE],
            "simulations": placement_rows(simulated),
            "extensions": None if more is None else document(more),
        },
        simulated=[simulated.budgets, simulated.limits, *([] if more is None else [more.policies])],
        drawn=[*_pictures(runs), *pictures(simulated)],
        origin="measured chips",
    )


def spread(runs: ChipRuns) -> dict[str, Any]:
    """Return how chips differ for one application, over medians of chips."""
    watts, time_s = chip_medians(runs)
    return {
        "app": runs.app,
        "chips": len(runs.chips),
        "runs": len(runs.chip),
        "watts": float(watts.mean()),
        "watts_cv_percent": float(100 * watts.std(ddof=1) / watts.mean()),
        "watts_range_percent": float(100 * np.ptp(watts) / watts.mean()),
        "time_cv_percent": float(100 * time_s.std(ddof=1) / time_s.mean()),
        "slowest_percent": float(100 * (time_s.max() / np.median(time_s) - 1)),
        "temperature_c": float(np.median(runs.temperature_c)),
    }


def claims(runs: Sequence[ChipRuns], ranks: Sequence[RankRow], simulated: Simulated) -> ClaimTable:
    """Return the figures of the description, and of PAL, beside ours.

    The description's are calculations on the same data, so that no interval is needed, but for the correction for
    noise, whose method it does not state. PAL's are simulations.
    """
    ours: dict[tuple[str, str], Estimate] = {}
    for one in runs:
        figures = spread(one)
        for metric in ("time_cv_percent", "slowest_percent", "watts_cv_percent"):
            ours[one.app, metric] = Estimate(1, figures[metric])
    for row in ranks:
        name = f"{row.quantities[0]}_{row.quantities[1]}"
        ours[", ".join(row.apps), name] = Estimate(1, row.raw.mean)
        ours[", ".join(row.apps), f"{name}_corrected"] = row.corrected
    rows = []
    for c in TOLD.claims:
        if c.over:
            rows.append(c.judge(simulated.limits))
        else:
            figure = ours[c.on[0], c.metric]
            rows.append(Judged(c.claim, figure, certain=figure.low is None))
    return ClaimTable(rows, TOLD.draws, "What the data set's description and PAL state beside ours")


def spread_table(runs: Sequence[ChipRuns]) -> Table:
    """Return how chips differ for each application."""
    rows = []
    for one in runs:
        f = spread(one)
        keys = ("watts_cv_percent", "watts_range_percent", "time_cv_percent", "slowest_percent")
        rows.append([one.app, str(f["chips"]), str(f["runs"]), f"{f['watts']:.0f}", *(f"{f[k]:.1f}" for k in keys)])
    heads = ("application", "chips", "runs", "W", "CV of W", "range of W", "CV of time", "slowest")
    return Table(heads, rows, "Chips differ: medians over each chip's runs (%)", "slowest: over the median chip.")


def rank_table(ranks: Sequence[RankRow]) -> Table:
    """Return the rank correlations with their intervals."""
    rows = []
    for row in ranks:
        name = " - ".join(f"{q} of {a}" for a, q in zip(row.apps, row.quantities, strict=True))
        reliable = " / ".join(f"{r:.2f}" for r in row.reliability)
        rows.append([name, with_interval(row.raw, "+", 2), with_interval(row.corrected, "+", 2), reliable])
    heads = ("rank of ... on the same chips", "raw", "without noise", "reliability")
    return Table(heads, rows, "Does a rank carry over? Spearman's rank correlation, 95 % interval over chips")


def saving_table(savings: Sequence[SavingRow], quantity: str) -> Table:
    """Return what each rank saves in watts or in time, by share of the chips."""
    found = [row for row in savings if row.quantity == quantity]
    shares = list(dict.fromkeys(row.share for row in found))
    rows = []
    for app, rank in dict.fromkeys((row.app, row.rank) for row in found):
        of = {row.share: row.saved for row in found if (row.app, row.rank) == (app, rank)}
        rows.append([f"{app} by {rank}", *(with_interval(of[s]) for s in shares)])
    heads = ("chips chosen for ...", *(f"{100 * s:.0f} % of chips" for s in shares))
    return Table(heads, rows, f"Saved {quantity} over all chips, by the rank that chooses them (%)", key=f"{quantity}")


def _pictures(runs: Sequence[ChipRuns]) -> list[Drawn]:
    """Return the spread of watts and times over the chips."""
    figures = []
    for k, quantity in enumerate(("watts", "time")):
        values = {one.app: chip_medians(one)[k] for one in runs}
        shown = {app: Box.of(100 * v / v.mean() - 100) for app, v in values.items()}
        axis = Axis(f"{quantity} over the mean chip", "%")
        says = "Medians of each chip's runs, measured."
        title = f"Spread of {quantity} over chips"
        figure = boxes.figure(quantity, title, says, axis, shown, rows="application", from_zero=False)
        figures.append((figure, "boxes"))
    return figures


def _rank_document(row: RankRow) -> dict[str, Any]:
    """Return a rank correlation for JSON."""

    def figure(found: Estimate) -> dict[str, float | None]:
        return {"mean": found.mean, "low": found.low, "high": found.high}

    named = {"apps": list(row.apps), "quantities": list(row.quantities), "reliability": list(row.reliability)}
    return {**named, "raw": figure(row.raw), "corrected": figure(row.corrected)}


def _saving_document(row: SavingRow) -> dict[str, Any]:
    """Return a saving for JSON."""
    saved = {"saved_percent": row.saved.mean, "low": row.saved.low, "high": row.saved.high}
    return {"app": row.app, "quantity": row.quantity, "share": row.share, "rank": row.rank, **saved}
