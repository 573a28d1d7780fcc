"""Any set of measured chips: a file (TOML) that states which columns of a table of runs hold chip, watts and time.

Example::

    name = "64 nodes of Emmy"
    file = "emmy.csv"            # beside this file; CSV, also gzipped, one row per run
    chip = "host"                # column of the chip's name
    app = "job_id"               # column of the application; or application = "hpl" for all rows
    watts = "rapl_power"         # column of mean watts; left out where none were measured
    time = "elapsed_ms"          # column of run times, likewise; one of the two is needed
    time_unit_s = 0.001          # seconds of a unit of that column, 1 unless stated

Sets with watts and time are ranked by both and simulated, as the PAL data set is; with one of them, ranked by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from wattqueue.errors import InputError
from wattqueue.formats import csv_records
from wattqueue.formats.bounded import Seconds
from wattqueue.formats.checked_toml import StrictTable, read_model
from wattqueue.model.bounds import DURATION_S, UNIT_W
from wattqueue.report.document import Block, Prose
from wattqueue_studies.chips.chip_runs import FEWEST_CHIPS, ChipPair, ChipRuns, chip_pair
from wattqueue_studies.chips.devices import devices
from wattqueue_studies.chips.limits import simulate_devices
from wattqueue_studies.chips.placement_tables import tables
from wattqueue_studies.chips.ranks import rank_rows, saving_rows
from wattqueue_studies.chips.spread import rank_table, saving_table, spread_document, spread_pictures, spread_table
from wattqueue_studies.frame.claim import ClaimTable
from wattqueue_studies.frame.report import Progress, StudyReport


class ChipColumns(StrictTable):
    """A file that states the columns of a table of runs (see the module)."""

    name: Annotated[str, Field(min_length=1)]
    file: str
    chip: str
    app: str = ""
    application: str = ""
    watts: str = ""
    time: str = ""
    time_unit_s: Seconds = 1.0

    @model_validator(mode="after")
    def complete(self) -> Self:
        """Raise ValueError where no application, or neither watts nor time is stated."""
        if bool(self.app) == bool(self.application):
            raise ValueError("state app (a column) or application (the name of all rows)")
        if not (self.watts or self.time):
            raise ValueError("state the column of watts, of time, or both")
        return self


def read_chip_set(path: Path) -> tuple[ChipColumns, list[ChipRuns]]:
    """Return a set's columns, and its runs by application; watts or times that it does not have are NaN.

    Raises: InputError naming file, and line or key, for columns that are not there, a run without chip or application,
    and watts or times that are not above 0.
    """
    stated = read_model(path, ChipColumns)
    table = path.parent / stated.file
    named = [column for column in (stated.chip, stated.app) if column]
    numbers = [column for column in (stated.watts, stated.time) if column]
    frame, _ = csv_records.read(table, csv_records.having((*named, *numbers)), numbers)
    none = np.full(len(frame), np.nan)
    watts = frame[stated.watts].to_numpy() if stated.watts else none
    time_s = frame[stated.time].to_numpy() * stated.time_unit_s if stated.time else none
    usable = np.ones(len(frame), np.bool_)
    for column in named:
        usable &= frame[column].is_not_null().to_numpy()
    if stated.watts:
        usable &= UNIT_W.holds(watts) & (watts > 0)
    if stated.time:
        usable &= DURATION_S.holds(time_s) & (time_s > 0)
    csv_records.require_rows(table, usable, "a run without chip or application, or with time or watts that are none")
    if not len(frame):
        raise InputError("no runs", where=table, hint="one row per run")
    apps = frame[stated.app].to_numpy().astype(str) if stated.app else np.full(len(frame), stated.application)
    found = []
    for app in np.unique(apps):
        at = np.flatnonzero(apps == app)
        names, chip = np.unique(frame[stated.chip].to_numpy().astype(str)[at], return_inverse=True)
        found.append(ChipRuns(str(app), tuple(names.tolist()), chip, time_s[at], watts[at], none[at], none[at]))
    return stated, found


def pairs_of(runs: list[ChipRuns]) -> list[ChipPair]:
    """Return each two applications that share enough chips."""
    return [chip_pair(a, b) for a, b in combinations(runs, 2) if len(set(a.chips) & set(b.chips)) >= FEWEST_CHIPS]


@dataclass(frozen=True, slots=True)
class ChipSetStudy:
    """The study of a set of chips by its file of columns: spread, ranks, savings; with watts and time policies too.

    Attributes:
        columns: The file that states the columns.
        draws: Draws of jobs for the simulations.
        threads: Simulations at a time.
    """

    columns: Path
    draws: int = 20
    threads: int = 2

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Read the runs, rank the chips, and simulate policies on those that have watts and times.

        Raises: InputError for a file that cannot be used, and for no draw.
        """
        stated, runs = read_chip_set(self.columns)
        pairs = pairs_of(runs)
        ranks = [row for pair in pairs for row in rank_rows(pair)]
        savings = [row for pair in pairs for row in saving_rows(pair)]
        parts: list[Block] = [spread_table(runs)]
        if ranks:
            parts.append(rank_table(ranks))
        parts += [saving_table(savings, q) for q in dict.fromkeys(row.quantity for row in savings)]
        if stated.watts and stated.time and pairs:
            by_app = {one.app: one for one in runs}
            found = [devices(pair, [by_app[app] for app in pair.apps]) for pair in pairs]
            benchmarks = [pair.apps[0] for pair in pairs]
            parts += tables(simulate_devices(found, benchmarks, self.draws, self.threads, progress))
        parts.append(Prose("How to read the figures", notes(stated, pairs), "notes"))
        chips = len({chip for one in runs for chip in one.chips})
        return StudyReport.of(
            "chips",
            (stated.name, "Measured chips"),
            f"{sum(len(one.chip) for one in runs):,} runs of {len(runs)} applications on {chips} chips.",
            "What one benchmark says about another application on the same chips.",
            ClaimTable((), "resampled chips"),
            parts,
            {"measured": True, "set": stated.model_dump(), "spread": [spread_document(one) for one in runs]},
            drawn=spread_pictures(runs),
            origin="measured chips",
        )


def notes(stated: ChipColumns, pairs: list[ChipPair]) -> list[str]:
    """Return what the reader has to know of the set."""
    found = ["A chip's figure is the median over its runs. Intervals are over resampled chips."]
    if not pairs:
        found.append(f"No two applications ran on {FEWEST_CHIPS} common chips: no rank can carry over.")
    if any(not pair.repeated for pair in pairs):
        found.append(
            "Chips with one run have no halves: no noise can be told from differences, and no saving by own runs."
        )
    if not (stated.watts and stated.time):
        found.append("Without both watts and times no policy is simulated.")
    return found
