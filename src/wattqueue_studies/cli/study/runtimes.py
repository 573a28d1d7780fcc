"""Predicted run times on traces and generated jobs: waits and their tail, broken promises, and where they harm.

``study.runtimes`` simulates and compares; this file has the options. Traces are read in any known format. The rows with
gradient boosting take most of the time: ``--policy`` leaves them out.
"""

from __future__ import annotations

from typing import Annotated

import typer

from wattqueue.verbs import verb_of
from wattqueue_studies.cli.study._run import ParallelStudy, TraceOption


@verb_of(ParallelStudy)
def run(
    output: ParallelStudy,
    trace: TraceOption = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="Row to simulate beside easy, instead of all; repeatable.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=0, max=1_000, help="Generated workloads of Marconi100 per load; 0 for none.")
    ] = 3,
    days: Annotated[float, typer.Option(min=1.0, max=400.0, help="Length of a generated workload.")] = 60.0,
) -> None:
    """EASY with predicted run times against users' limits, with and without a cap.

    Each trace is simulated whole, by halves (a setting is chosen on the first and judged on the second) and under a
    cap. Rows marked as oracles know the true run times.
    """
    from wattqueue_studies.runtimes.study import POLICIES, RecordedTrace, RunTimesStudy

    traces = tuple(map(RecordedTrace.parse, trace or ()))
    output.perform(RunTimesStudy(traces, seeds, days, output.threads, policy or POLICIES))
