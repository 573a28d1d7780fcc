"""``whatif``: a series of caps on one workload, and the lowest one that the data certify, as ``wattqueue whatif``.

The runs of all caps keep their columns in files that are mapped into memory, so that a study of many caps on a long
trace does not need the memory of all runs at once. They are removed when ``whatif`` returns: ``CapStudy`` holds what
the terminal, the files and a notebook show, as text and rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from wattqueue.api.inputs import PathLike, machine_arguments, of_arguments, text
from wattqueue.api.jobs import JobsLike, job_table
from wattqueue.campaign.shared import Shared
from wattqueue.formats.pages import write_files, write_text
from wattqueue.formats.results import results_frame
from wattqueue.model.machine import Machine
from wattqueue.report.document import Document
from wattqueue.whatif.answer import Answer, conclude
from wattqueue.whatif.ask import ask, prepare
from wattqueue.whatif.document import payer_rows, rows
from wattqueue.whatif.options import question_of
from wattqueue.whatif.page import document, files

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class CapStudy:
    """The answer of ``whatif``; in a notebook the table of all caps with its conclusions."""

    about: str
    """Workload and machine."""
    shown: Document
    """What terminals and notebooks show: for each configuration a table and its conclusions, then remarks."""
    files: Mapping[str, str]
    """Text of every file that ``save`` writes, by name."""
    rows: tuple[dict[str, Any], ...]
    payer_rows: tuple[dict[str, Any], ...]

    def __repr__(self) -> str:
        return f"<caps on {self.about}: {'; '.join(str(part) for part in self.shown.text[2:4])}>"

    @cached_property
    def frame(self) -> pl.DataFrame:
        """Return the columns of whatif.csv as a polars frame: one row per configuration and cap, "none" first."""
        return results_frame(self.rows)

    @cached_property
    def payers(self) -> pl.DataFrame:
        """Return the columns of payers.csv as a polars frame: who waits longer under each cap."""
        return results_frame(self.payer_rows)

    @cached_property
    def conclusions(self) -> list[dict[str, Any]]:
        """Return what whatif.json states of each configuration: knee, lowest_safe_cap, lowest_safe_cap_w, why, ..."""
        found: list[dict[str, Any]] = json.loads(self.files["whatif.json"])["configurations"]
        return found

    @property
    def lowest_safe_cap(self) -> str | None:
        """Return the lowest safe cap of the first configuration, as it was written; None where none is certified."""
        cap: str | None = self.conclusions[0]["lowest_safe_cap"]
        return cap

    @property
    def lowest_safe_cap_unknown_at_maximum(self) -> str | None:
        """Return the cap that is safe if every job without watts draws the stated maximum of its nodes.

        None where none is, and where the data know the watts of enough work, so that ``lowest_safe_cap`` is the answer.
        """
        cap: str | None = self.conclusions[0].get("lowest_safe_cap_unknown_at_maximum")
        return cap

    def report(self, path: PathLike) -> Path:
        """Write the page with tables and figures, one HTML file; return its path. Raises: OutputError."""
        write_text(Path(path), self.files["report.html"])
        return Path(path)

    def save(self, folder: PathLike) -> Path:
        """Write whatif.csv, payers.csv, whatif.json and report.html, as the command line does. Raises: OutputError."""
        write_files(Path(folder), self.files)
        return Path(folder)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from wattqueue.api.notebook import document_html

        return document_html(self.shown)


@of_arguments
def whatif(  # noqa: PLR0913  as many as options of the command line
    jobs: JobsLike,
    machine: Machine | PathLike | None = None,
    *,
    nodes: int | None = None,
    node_watts: str | None = None,
    cap: str = "60%..100%",
    policy: str = "easy",
    estimator: str | None = None,
    risk: str = "1%",
    prices: PathLike | None = None,
    price_unit: str = "EUR/MWh",
    intensity: PathLike | None = None,
    intensity_unit: str = "gCO2/kWh",
    start: str | None = None,
    repair: bool = False,
    at: str | None = None,
    workers: int | None = None,
) -> CapStudy:
    """Compare power caps: waits, risk, cost and carbon of each, and the lowest cap that the data certify as safe.

    Args:
        jobs: As for ``simulate``.
        machine: As for ``simulate``.
        nodes: As for ``simulate``.
        node_watts: As for ``simulate``.
        cap: ``60%..100%``, ``60%..100%:10%``, ``300kW..500kW:50kW``, or a list separated by commas.
        policy: Names of policies, separated by commas.
        estimator: Estimators instead of the policies' own, separated by commas.
        risk: Accepted share of time above the cap.
        prices: CSV of time and price.
        price_unit: Unit of the prices.
        intensity: CSV of time and carbon intensity.
        intensity_unit: Unit of the carbon intensities.
        start: Date of the trace's time 0, or of its first job where the trace has dates.
        repair: Correct dates whose UTC offset contradicts their neighbours'.
        at: The cap to examine closely; None for the lowest safe one, else the knee, else the lowest.
        workers: Number of processes; None for one per core.

    Raises:
        WattQueueError: One line that says what is wrong, where, and how to correct it.

    Example::

        wq.whatif("jobs.parquet", "site.toml", estimator="history-max", cap="60%..100%").lowest_safe_cap
    """
    table = job_table(jobs)
    made, named = machine_arguments(machine, nodes, node_watts)
    question = question_of(
        replace(table.task, **named), cap=text(cap, "cap", 'a text such as "60%..100%"'), policy=policy,
        estimator=estimator, risk=text(risk, "risk", 'a text such as "1%"'), prices=_csv(prices, "prices"),
        price_unit=price_unit, intensity=_csv(intensity, "intensity"), intensity_unit=intensity_unit, start=start,
        repair=repair, at=at,
    )  # fmt: skip
    setup = prepare(question, machine=made, workload=table.workload)
    # The runs keep their columns mapped from the folder, so everything that is read from them is taken out before it
    # is removed.
    with TemporaryDirectory(prefix="wattqueue-") as folder:
        answer = conclude(setup, ask(setup, Shared(Path(folder)), workers=workers))
        return _study(answer, table.name)


def _csv(path: PathLike | None, option: str) -> Path | None:
    """Return the path of a series, None without one. Raises: InputError for what is no path."""
    return None if path is None else Path(text(path, option, "the name of a CSV"))


def _study(answer: Answer, name: str) -> CapStudy:
    """Return what is kept of an answer once its runs are gone: not the figures, which are in the page."""
    shown = document(answer)
    return CapStudy(
        f"{name} on {answer.setup.machine.name}",
        replace(shown, blocks=()),
        files(answer, shown),
        tuple(rows(answer)),
        tuple(payer_rows(answer)),
    )
