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

from wattqueue.api.answer import SavedAnswer
from wattqueue.api.inputs import machine_arguments, of_options, physics_arguments, text
from wattqueue.api.jobs import job_table
from wattqueue.campaign.shared import Shared
from wattqueue.formats.results import results_frame
from wattqueue.report.document import Document
from wattqueue.whatif.analysis import CapAnalysis, analyse
from wattqueue.whatif.document import delayed_user_rows, rows
from wattqueue.whatif.options import WhatifOptions
from wattqueue.whatif.page import document, files
from wattqueue.whatif.prepare import prepare, run_caps

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class CapStudy(SavedAnswer):
    """The answer of ``whatif``; in a notebook the table of all caps with its conclusions."""

    about: str
    """Workload and machine."""
    shown: Document
    """What terminals and notebooks show: for each configuration a table and its conclusions, then remarks."""
    files: Mapping[str, str]
    """Text of every file that ``save`` writes, by name."""
    rows: tuple[dict[str, Any], ...]
    delayed_user_rows: tuple[dict[str, Any], ...]

    def __repr__(self) -> str:
        return f"<caps on {self.about}: {'; '.join(str(part) for part in self.shown.text[2:4])}>"

    @cached_property
    def frame(self) -> pl.DataFrame:
        """Return the columns of whatif.csv as a polars frame: one row per configuration and cap, "none" first."""
        return results_frame(self.rows)

    @cached_property
    def delayed_users(self) -> pl.DataFrame:
        """Return the columns of delayed_users.csv as a polars frame: who waits longer under each cap."""
        return results_frame(self.delayed_user_rows)

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


@of_options(WhatifOptions)
def whatif(options: WhatifOptions) -> CapStudy:
    """Compare power caps: waits, risk, cost and carbon of each, and the lowest cap that the data certify as safe.

    Raises:
        WattQueueError: One line that says what is wrong, where, and how to correct it.

    Example::

        wq.whatif("jobs.parquet", "site.toml", estimator="history-max", cap="60%..100%").lowest_safe_cap
    """
    o = options
    for value, name, hint in (
        (o.cap, "cap", 'a text such as "60%..100%"'), (o.risk, "risk", 'a text such as "1%"'),
        (o.prices or "", "prices", "the name of a CSV"), (o.intensity or "", "intensity", "the name of a CSV"),
    ):  # fmt: skip
        text(value, name, hint)
    table = job_table(o.jobs, o.seed, o.default_walltime, o.procs_per_node)
    made, named = machine_arguments(o.machine, o.nodes, o.node_watts)
    physics, stated = physics_arguments(table.task, o.physics, o.physics_error, o.seed)
    question = o.question(replace(table.task, **named, **stated))
    setup = prepare(question, machine=made, workload=table.workload, physics=physics)
    # The runs keep their columns mapped from the folder, so everything that is read from them is taken out before it
    # is removed.
    with TemporaryDirectory(prefix="wattqueue-") as folder:
        answer = analyse(setup, run_caps(setup, Shared(Path(folder)), workers=o.workers))
        return _study(answer, table.name)


def _study(answer: CapAnalysis, name: str) -> CapStudy:
    """Return what is kept of an answer once its runs are gone: not the figures, which are in the page."""
    shown = document(answer)
    return CapStudy(
        f"{name} on {answer.setup.machine.name}",
        replace(shown, blocks=()),
        files(answer, shown),
        tuple(rows(answer)),
        tuple(delayed_user_rows(answer)),
    )
