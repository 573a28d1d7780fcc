"""Simulate one generated week of a 980-node machine: EASY uncapped, and EASY under a 35 % cap.

The cap is chosen so that it binds even if the watts of every job are known: at 60 % it never does, so that the third
run would equal the first.

The three runs need no files and no network. Together they show what power-aware scheduling is about: the week without
a cap, what a cap costs when every node counts at its maximum, and what it costs when the
maximum watts of each job are known.
Each run is a directory as ``simulate --out`` writes it, for ``report``, ``compare`` and ``plot``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import Printed, verb_of

WEEK = "marconi:days=7,load=0.9"
"""Workload: some 14,000 jobs, seconds to simulate."""
MACHINE = "marconi100"
CAP = "35%"
"""Cap of the second and third run."""


@verb_of(Printed)
def run(
    printed: Printed,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the three runs.")] = Path("out/demo"),
    cap: Annotated[str, typer.Option(help="The cap of the second and third run.")] = CAP,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the generated week.")] = 1,
) -> None:
    """Simulate one generated week of a 980-node machine: EASY uncapped, and EASY under a 35 % cap."""
    from wattqueue.cli._table import show
    from wattqueue.cli._write import write
    from wattqueue.policy.oracles import marked, oracles_of
    from wattqueue.runs.perform import load, perform
    from wattqueue.runs.task import Task
    from wattqueue.terminal import running

    # maximum is what a cap costs without any prediction; oracle-max what the best prediction could make of it.
    runs = (
        ("uncapped", "maximum", None),
        (f"cap {cap}", "maximum", cap),
        (f"cap {cap}, watts known", "oracle-max", cap),
    )
    columns, found = [], {}
    for name, estimator, limit in runs:
        inputs = load(Task(WEEK, machine=MACHINE, policy="easy", estimator=estimator, cap=limit, seed=seed))
        with running(name, quiet=printed.quiet) as progress:
            outcome = perform(inputs, progress)
        write(out / name.replace("%", "").replace(",", "").replace(" ", "-"), outcome, report=True)
        columns.append((marked(name, oracles_of(inputs.policy)), outcome.metrics))
        found[name] = outcome.metrics
    printed.show(lambda: {"runs": found}, lambda: show(f"A generated week ({WEEK}) on {MACHINE}", columns))
    printed.say(
        (
            "Policy easy. Under the cap it counts every node at its maximum, or each job at its own maximum",
            "(watts known): the difference is what a good prediction can gain. Generated, not measured.",
            f"Each run, with report.html, is in {out}/.",
        )
    )
