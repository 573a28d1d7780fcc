"""Predicted run times on traces and generated jobs: waits and their tail, broken promises, and where they harm.

``study.runtimes`` simulates and compares; this file has the options. Traces are read in any known format. The rows with
gradient boosting take most of the time: ``--policy`` leaves them out.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def run(
    trace: Annotated[
        list[str] | None, typer.Option(help="Recorded trace with the nodes to simulate it on, FILE:NODES; repeatable.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="Row to simulate beside easy, instead of all; repeatable.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=0, max=1_000, help="Generated workloads of Marconi100 per load; 0 for none.")
    ] = 3,
    days: Annotated[float, typer.Option(min=1.0, max=400.0, help="Length of a generated workload.")] = 60.0,
    threads: Annotated[int, typer.Option("--workers", min=1, max=1_024, help="Simulations at a time.")] = os.cpu_count()
    or 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure here.")] = None,
    page: Annotated[Path | None, typer.Option("--html", help="Write all tables here.")] = None,
    tables: Annotated[Path | None, typer.Option("--markdown", help="Write all tables as Markdown here.")] = None,
) -> None:
    """EASY with predicted run times against users' limits, with and without a cap.

    Each trace is simulated whole, by halves (a setting is chosen on the first and judged on the second) and under a
    cap. Rows marked as oracles know the true run times.
    """
    from wattqueue_studies.cli.study._run import perform
    from wattqueue_studies.runtimes.study import POLICIES, RecordedTrace, RunTimesStudy

    traces = tuple(map(RecordedTrace.parse, trace or ()))
    perform(RunTimesStudy(traces, seeds, days, threads, policy or POLICIES), json_file, page, tables=tables)
