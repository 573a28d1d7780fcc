"""How many more nodes fit under the limits of the power domains, and what they would cost users.

``wattqueue.plan`` has the computation; this file has the options and what is printed. Nothing is written before all
runs have finished.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from wattqueue.plan.options import PlanOptions
from wattqueue.verbs import Printed, out_field, verb_of

RUNS = 100
"""Runs that the bar expects; how many a search takes is not known before."""


@dataclass(frozen=True)
class PlanVerb(Printed, PlanOptions):
    """Options of the verb."""

    _: KW_ONLY
    out: Path | None = out_field("Folder for report.html, plan.csv and plan.json.")


@verb_of(PlanVerb)
def run(options: PlanVerb) -> None:
    """Find how many more nodes fit under the limits of the power domains, and what they cost users."""
    from wattqueue.cli._table import print_document
    from wattqueue.formats.atomic_folder import write_files
    from wattqueue.plan.answer import answer
    from wattqueue.plan.page import document, files, to_json
    from wattqueue.plan.prepare import prepare
    from wattqueue.terminal import running

    setup = prepare(options.question(options.task()))
    with running("plan", "runs", quiet=options.quiet) as tell:
        found = answer(setup, tell=None if tell is None else lambda done: tell(done, max(RUNS, done + 1)))
    shown = document(found)
    if options.out is not None:
        write_files(options.out, files(found, shown))
    options.show(lambda: to_json(found), lambda: print_document(shown))
    if options.out is not None:
        options.say([f"{options.out / 'report.html'} (with plan.csv and plan.json)"])
