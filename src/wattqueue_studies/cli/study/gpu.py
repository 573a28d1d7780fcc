"""Watts and run times under GPU limits: fitted on some limits, workloads and kinds of GPU, predicted for others.

``gpu.study`` computes; this file has the options.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import verb_of
from wattqueue_studies.cli.study._run import StudyOutput


@verb_of(StudyOutput)
def run(
    output: StudyOutput,
    *,
    measured: Annotated[
        list[Path] | None, typer.Option(help="Measurements of one kind of GPU in Zeus' form (CSV); repeatable.")
    ] = None,
) -> None:
    """How well watts and run times under GPU limits are predicted from few measurements.

    With three files each kind of GPU is also predicted from the two others. Cells below the lowest limit that held are
    not trusted.
    """
    from wattqueue_studies.gpu.study import GpuStudy

    import_module("scipy.stats")  # needed for the intervals
    output.perform(GpuStudy(tuple(measured or ())), "fitting")
