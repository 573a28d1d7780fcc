"""Energy budgets by account or user, and users who choose a frugal clock: waits, energy and fairness.

``budgets.study`` computes; this file has the options. The design stands in the study's claims.toml.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Annotated

import typer

from wattqueue.verbs import verb_of
from wattqueue_studies.cli.study._run import ParallelStudy, TraceOption


@verb_of(ParallelStudy)
def run(
    output: ParallelStudy,
    *,
    trace: TraceOption = None,
    generated: Annotated[bool, typer.Option("--generated/--no-generated", help="Also generated jobs.")] = True,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1_000, help="Windows of each workload. [as designed: 20]")
    ] = None,
) -> None:
    """Energy budgets, and users who choose a frugal clock: waits, energy and fairness on windows of 14 days."""
    from wattqueue_studies.budgets.study import BudgetsStudy
    from wattqueue_studies.budgets.world import BudgetDesign
    from wattqueue_studies.runtimes.study import RecordedTrace

    design = BudgetDesign.stated()
    if seeds != 1:
        import_module("scipy.stats")  # needed for the intervals: fail before the work if it is missing
    design = design if seeds is None else replace(design, seeds=seeds)
    output.perform(BudgetsStudy(design, tuple(map(RecordedTrace.parse, trace or ())), generated, output.threads))
