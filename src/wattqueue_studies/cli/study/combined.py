"""The row ``combined`` against the best row of each paper, and what each of its ingredients is worth.

All workloads are generated. ``study.combined`` computes; this file has the options.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from wattqueue.verbs import verb_of
from wattqueue_studies.cli.study._run import ParallelStudy


@verb_of(ParallelStudy)
def run(
    output: ParallelStudy,
    draws: Annotated[int, typer.Option(min=1, max=10_000, help="Seeds of each scenario.")] = 30,
    first: Annotated[int, typer.Option(min=1, max=1_000_000, help="The first; options were fixed on 1 to 10.")] = 11,
    site_draws: Annotated[int, typer.Option(min=0, max=10_000, help="Seeds of the site with all ingredients.")] = 20,
) -> None:
    """Compare combined with the best row of each paper, and with itself, one ingredient more or less.

    Metrics and rows of comparison stand in the study's claims.toml, written before seeds 11 to 40 were run.
    """
    from wattqueue_studies.combined.study import CombinedStudy

    if draws > 1:
        import_module("scipy.stats")  # needed for the intervals: fail before the work if it is missing
    output.perform(CombinedStudy(draws, first, site_draws, output.threads))
