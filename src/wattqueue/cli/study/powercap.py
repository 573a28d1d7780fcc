"""Paper 4, sections 6.4 and 6.5: which prediction makes the best use of a capped window."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def run(
    workloads: Annotated[int, typer.Option(min=2, help="Windows of the long trace; the paper has 30.")] = 30,
    days: Annotated[float, typer.Option(min=0.125, help="Length of a window; the cap is on for 3 hours.")] = 3.0,
    load: Annotated[float, typer.Option(min=0.05, help="Work of the long trace over what the machine can do.")] = 0.8,
    seed: Annotated[int, typer.Option(min=0, help="Of the long trace and its windows.")] = 1,
    beyond: Annotated[
        bool, typer.Option(help="Also quantile and chance-constrained admission, on these and on hold-out workloads.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Simulations at a time.")] = os.cpu_count() or 1,
    folder: Annotated[
        Path | None, typer.Option(help="Keep workloads and finished runs here, to go on after a stop.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every run and average here.")] = None,
    page: Annotated[Path | None, typer.Option("--html", help="Write Figures 4 and 5 here.")] = None,
) -> None:
    """EASY+PC with five estimators under 13 caps on 30 workloads, printed figures beside ours (paper 4)."""
    import tempfile
    from contextlib import ExitStack
    from dataclasses import replace

    from wattqueue.cli._progress import counting
    from wattqueue.cli._write import refuse_folders
    from wattqueue.formats.pages import write_json, write_text
    from wattqueue.study.powercap.beyond import BEYOND, beyond_lines, verdicts
    from wattqueue.study.powercap.page import study_html
    from wattqueue.study.powercap.prepare import Choice
    from wattqueue.study.powercap.published import MEAN, POLICIES
    from wattqueue.study.powercap.study import run_study
    from wattqueue.study.powercap.text import study_lines

    refuse_folders(json_file, page)
    choice = Choice(workloads=workloads, days=days, load=load, seed=seed)
    with ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wattqueue-powercap-")))
        progress = stack.enter_context(counting("simulating"))
        policies = (*POLICIES, *BEYOND) if beyond else POLICIES
        result = run_study(place, choice, policies=policies, workers=workers, progress=progress)
        others = replace(choice, seed=seed + 1)
        hold_out = None
        if beyond:
            hold_out = run_study(place, others, policies=(MEAN, *BEYOND), workers=workers, progress=progress)
    if json_file is not None:
        document = result.document()
        if hold_out is not None:
            document["hold_out"] = hold_out.document() | {"verdicts": [v.document() for v in verdicts(hold_out.groups)]}
        write_json(json_file, document)
    if page is not None:
        write_text(page, study_html(result))
    for line in study_lines(result):
        typer.echo(line)
    if hold_out is not None:
        for line in ("", *beyond_lines(hold_out)):
            typer.echo(line)
