"""How far rows are from a proven bound, and what is lost: not knowing run times or watts, reservations, order.

``study.gap`` computes; this file has the options. It needs the package highspy (extra ``bounds``).
"""

from __future__ import annotations

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
    generated: Annotated[
        bool,
        typer.Option("--generated/--no-generated", help="Also generated jobs of Marconi100, with and without a cap."),
    ] = True,
    window: Annotated[int, typer.Option(min=2, max=2_000, help="Jobs of a window.")] = 200,
    windows: Annotated[int, typer.Option(min=1, max=1_000, help="Windows of each workload, by seeds 1, 2, ...")] = 10,
    tries: Annotated[
        int, typer.Option(min=0, max=10**9, help="Lists that the search for schedules tries in a window.")
    ] = 40_000,
) -> None:
    """All rows against a bound that no schedule is below, on windows of traces and of generated jobs.

    Which differences of rows are looked at stands in the study's claims.toml, written before the first run.
    """
    from wattqueue_studies.bound.assess import Search
    from wattqueue_studies.gap.study import DEFAULT, GapStudy
    from wattqueue_studies.runtimes.study import RecordedTrace

    if windows > 1:
        import_module("scipy.stats")  # needed for the intervals: fail before the work if it is missing
    traces = tuple(map(RecordedTrace.parse, trace or ()))
    search = Search(tries, DEFAULT.steps)
    output.perform(GapStudy(traces, generated, window, windows, search, output.threads), "bounding")
