"""One generated week of a 980-node machine: EASY uncapped beside EASY under a 60 % cap."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WEEK = "marconi:days=7,load=0.9"
MACHINE = "marconi100"


def run(
    out: Annotated[Path, typer.Option(help="Where both runs go.")] = Path("out/demo"),
    cap: Annotated[str, typer.Option(help="The cap of the second run.")] = "60%",
    seed: Annotated[int, typer.Option(help="Seed of the generated week.")] = 1,
) -> None:
    """One generated week of a 980-node machine: EASY uncapped beside EASY under a 60 % cap."""
    from wattqueue.cli._progress import running
    from wattqueue.cli._table import show
    from wattqueue.cli._write import write
    from wattqueue.sim.task import Task, load, perform

    runs = (
        ("uncapped", "naive", None),
        (f"cap {cap}", "naive", cap),
        (f"cap {cap}, watts known", "oracle-max", cap),
    )
    columns = []
    for name, estimator, limit in runs:
        inputs = load(Task(WEEK, machine=MACHINE, policy="easy", estimator=estimator, cap=limit, seed=seed))
        with running(len(inputs.jobs), name) as progress:
            outcome = perform(inputs, progress)
        write(out / name.replace("%", "").replace(",", "").replace(" ", "-"), outcome, report=True)
        columns.append((name, outcome.metrics))
    show(f"A generated week ({WEEK}) on {MACHINE}", columns)
    typer.echo(
        "Policy easy. Under the cap it counts every node at its maximum (naive), or each job at its own\n"
        "(watts known): the difference is what a prediction can win. Generated, not measured.\n"
        f"Each run, with report.html, is in {out}/."
    )
