"""Paper 4, sections 6.4 and 6.5: which prediction makes the best use of a capped window.

Workloads and finished runs lie in ``--folder``, or in a temporary folder that is removed at the end; with a folder, the
same command resumes after a stop.

``study.powercap`` prepares the windows, runs the policies as a campaign and compares them with the printed figures;
this file has the options. With ``--extensions`` other admission rules, measured ledgers among them, are judged on
traces that had no part in their choice. ``--months`` runs another study instead (``study.powercap.guarantee``): whether
the share of time above a cap that was asked for is kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wattqueue.verbs import verb_of
from wattqueue_studies.cli.study._run import ParallelStudy

if TYPE_CHECKING:
    from wattqueue_studies.powercap.guarantee import GuaranteeStudy


@verb_of(ParallelStudy)
def run(
    output: ParallelStudy,
    *,
    traces: Annotated[
        int, typer.Option(min=1, max=1_000, help="Long traces, with seeds that follow each other; intervals need 2.")
    ] = 10,
    workloads: Annotated[int, typer.Option(min=2, max=1_000, help="Windows of each; the paper has 30.")] = 30,
    days: Annotated[
        float, typer.Option(min=0.125, max=200.0, help="Length of a window; the cap is on for 3 hours.")
    ] = 3.0,
    load: Annotated[
        float, typer.Option(min=0.05, max=10.0, help="Work of the long trace over what the machine can do.")
    ] = 0.8,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Of the first trace and its windows.")] = 1,
    extensions: Annotated[
        int, typer.Option(min=0, max=1_000, help="Other rules too, on so many windows each of unseen traces.")
    ] = 0,
    months: Annotated[
        int,
        typer.Option(
            min=0,
            max=1_000,
            help="Instead: so many months under a constant cap (a multiple of 3), and how many kept what was asked.",
        ),
    ] = 0,
    ramps: Annotated[
        Path | None, typer.Option(help="With --months: power of a real machine over time (CSV), as one job's ramps.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Keep workloads and finished runs here, to resume after a stop.")
    ] = None,
) -> None:
    """EASY+PC with five estimators under 13 caps on 30 workloads of ten traces, printed figures beside ours (paper 4).

    The paper's 1,950 runs are done on each trace, at two figures of idle watts. Small settings for a first look:
    --traces 2 --workloads 2 --days 0.5.
    """
    import tempfile
    from contextlib import ExitStack
    from dataclasses import replace

    from wattqueue.errors import InputError
    from wattqueue_studies.powercap.frontier import SEED, FrontierStudy
    from wattqueue_studies.powercap.prepare import WorkloadSelection
    from wattqueue_studies.powercap.study import PowercapStudy

    for name, value in (("--days", days), ("--load", load)):
        if value != value:  # noqa: PLR0124 - NaN passes the option's own range
            raise InputError("is not a number", where=name, hint="give a number")
    if ramps is not None and not months:
        raise InputError("belongs to --months", where="--ramps", hint="give --months 60")
    if months:
        with ExitStack() as stack:
            place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wattqueue-months-")))
            output.perform(_months(place, months, ramps, load, output.threads))
        return
    choice = WorkloadSelection(workloads=workloads, days=days, load=load, seed=seed)
    # The stack removes the temporary folder also when a signal ends the run.
    with ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wattqueue-powercap-")))
        other = replace(choice, workloads=extensions, seed=seed + SEED - 1)
        rules = FrontierStudy(place, other, traces, workers=output.threads) if extensions else None
        output.perform(PowercapStudy(place, choice, traces, workers=output.threads, frontier=rules))


def _months(folder: Path, months: int, ramps: Path | None, load: float, workers: int) -> GuaranteeStudy:
    """Return the study of months under a constant cap. Raises: InputError for a file that cannot be read."""
    from wattqueue.errors import InputError
    from wattqueue.formats.series import read_steps
    from wattqueue.model.steps import Steps
    from wattqueue_studies.powercap.guarantee import MONTHS, GuaranteeStudy

    if months % MONTHS:
        raise InputError(f"is {months}", where="--months", hint=f"a multiple of {MONTHS}: the months of a trace")
    known = None
    if ramps is not None:
        rows = read_steps(ramps)
        known = Steps(rows.time_s, rows.value)
    return GuaranteeStudy(folder, traces=months // MONTHS, load=load, ramps=known, workers=workers)
