"""Paper 4, sections 6.4 and 6.5: which prediction makes the best use of a capped window.

Workloads and finished runs lie in ``--folder``, or in a temporary folder that is removed at the end; with a folder, the
same command resumes after a stop.

``study.powercap`` prepares the windows, runs the policies as a campaign and compares them with the printed figures;
this file has the options. With ``--beyond`` a second study runs on another trace: admission
rules that were chosen on the first one are judged on workloads that had no part in the choice.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def run(
    workloads: Annotated[int, typer.Option(min=2, max=1_000, help="Windows of the long trace; the paper has 30.")] = 30,
    days: Annotated[
        float, typer.Option(min=0.125, max=200.0, help="Length of a window; the cap is on for 3 hours.")
    ] = 3.0,
    load: Annotated[
        float, typer.Option(min=0.05, max=10.0, help="Work of the long trace over what the machine can do.")
    ] = 0.8,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 2, help="Of the long trace and its windows.")] = 1,
    beyond: Annotated[
        bool, typer.Option(help="Also quantile and chance-constrained admission, on these and on hold-out workloads.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, max=1_024, help="Simulations at a time.")] = os.cpu_count() or 1,
    folder: Annotated[
        Path | None, typer.Option(help="Keep workloads and finished runs here, to resume after a stop.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every run and average here.")] = None,
    page: Annotated[Path | None, typer.Option("--html", help="Write Figures 4 and 5 here.")] = None,
) -> None:
    """EASY+PC with five estimators under 13 caps on 30 workloads, printed figures beside ours (paper 4).

    All of the paper's 1,950 runs take about two minutes on two cores. Small settings for a first look:
    --workloads 2 --days 0.5.
    """
    import tempfile
    from contextlib import ExitStack

    from wattqueue.cli.study._run import perform
    from wattqueue.errors import InputError
    from wattqueue.study.powercap.prepare import WorkloadSelection
    from wattqueue.study.powercap.study import PowercapStudy

    for name, value in (("--days", days), ("--load", load)):
        if value != value:  # noqa: PLR0124 - NaN passes the option's own range
            raise InputError("is not a number", where=name, hint="give a number")
    choice = WorkloadSelection(workloads=workloads, days=days, load=load, seed=seed)
    # The stack removes the temporary folder also when a signal ends the run.
    with ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wattqueue-powercap-")))
        perform(PowercapStudy(place, choice, workers=workers, extended=beyond), json_file, page)
