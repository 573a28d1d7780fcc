"""What a tree of power domains strands, by placement and racks a job, and how many nodes stand behind its breakers.

``domains.study`` computes; this file has the options. The design stands in the study's claims.toml.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Annotated

import typer

from wattqueue.verbs import verb_of
from wattqueue_studies.cli.study._run import ParallelStudy


@verb_of(ParallelStudy)
def run(
    output: ParallelStudy,
    *,
    seeds: Annotated[int | None, typer.Option(min=1, max=1_000, help="Workloads drawn. [as designed: 20]")] = None,
) -> None:
    """Stranded watts against racks a job, nodes behind the same breakers, and a derated row, on generated jobs."""
    from wattqueue_studies.domains.study import DomainsStudy
    from wattqueue_studies.domains.world import Design

    design = Design.stated()
    if seeds != 1:
        import_module("scipy.stats")  # needed for the intervals: fail before the work if it is missing
    output.perform(DomainsStudy(design if seeds is None else replace(design, seeds=seeds), output.threads))
