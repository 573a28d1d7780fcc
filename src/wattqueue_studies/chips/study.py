"""The study of measured chips: spread, ranks that carry over, savings by one rank, policies simulated on the chips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError
from wattqueue.formats.unit_factors import write_unit_factors
from wattqueue.policy.oracles import marked_policy
from wattqueue.report.compare.stats import Estimate
from wattqueue.report.document import Block
from wattqueue_studies.chips import limits
from wattqueue_studies.chips.budgets import ORACLE
from wattqueue_studies.chips.chip_runs import (
    ChipPair,
    ChipRuns,
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
from wattqueue_studies.chips.spread import rank_table, saving_table, spread, spread_pictures, spread_table
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
        drawn=[*spread_pictures(runs), *pictures(simulated)],
        origin="measured chips",
    )


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
