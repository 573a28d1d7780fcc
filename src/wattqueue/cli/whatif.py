"""Compare power caps: waits, risk, cost and carbon of each, and the lowest cap that the data certify as safe.

``run`` turns the options into a ``Question``; ``_answer`` runs every cap and writes and prints the answer. The table
in the terminal, the page and the files show the same figures, since all of them read one ``CapAnalysis``.

Each cap is simulated for each policy and estimator, beside one run without a cap. ``wattqueue.whatif`` has the
computation (``prepare``), the conclusions (``analysis``) and the texts (``text``); this file has the options and the
layout of the terminal.

Nothing is written before all runs have finished, and all files are written or none. The tables are printed after the
files, so that a reader who leaves early (``| head``) does not prevent them.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.verbs import Printed, out_field, verb_of
from wattqueue.whatif.options import WhatifOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wattqueue.model.comparability import WorkDone
    from wattqueue.whatif.analysis import CapAnalysis


@dataclass(frozen=True)
class WhatifVerb(Printed, WhatifOptions):
    """Options of the verb."""

    _: KW_ONLY
    out: Path | None = out_field("Folder for report.html, whatif.csv, delayed_users.csv, whatif.json.")


@verb_of(WhatifVerb)
def run(options: WhatifVerb) -> None:
    """Compare power caps: waits, risk, cost and carbon of each, and the lowest cap that the data certify as safe."""
    from tempfile import TemporaryDirectory

    from wattqueue.campaign.shared import Shared
    from wattqueue.cli._table import print_document
    from wattqueue.formats.atomic_folder import write_files
    from wattqueue.terminal import running, say_never_ran
    from wattqueue.whatif.analysis import analyse
    from wattqueue.whatif.document import to_json
    from wattqueue.whatif.page import document, files
    from wattqueue.whatif.prepare import prepare, run_caps

    question, folder = options.question(options.task()), options.out
    setup = prepare(question)
    # The runs keep their columns mapped from the temporary folder: everything is written and printed within it.
    with TemporaryDirectory(prefix="wattqueue-") as shared:
        with running("what if", "runs", quiet=options.quiet) as tell:
            found = run_caps(setup, Shared(Path(shared)), workers=options.workers, tell=tell)
        answer = analyse(setup, found)
        shown = document(answer)
        if folder is not None:
            write_files(folder, files(answer, shown))
        say_never_ran(works(answer))
        options.show(lambda: to_json(answer), lambda: print_document(shown))
    options.say([f"{sentence}." for sentence in setup.expansions()])
    if folder is not None:
        options.say([f"{folder / 'report.html'} (with whatif.csv, delayed_users.csv and whatif.json)"])


def works(answer: CapAnalysis) -> Iterator[tuple[str, WorkDone]]:
    """Yield the work of each run by the name of its configuration and cap."""
    for curve in answer.curves:
        texts = ("no cap", *(cap.text for cap in answer.setup.caps))
        for text, ran in zip(texts, (curve.plain, *curve.ran), strict=True):
            yield f"{curve.label}, {text}", ran.work
