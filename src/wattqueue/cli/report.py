"""Write report.html of a run: one file that opens without a network.

``simulate --out`` writes it too; this verb renews it, for example after an update of WattQueue.

The page is made from the files of the directory alone (``report.load``), so it can be renewed anywhere without the
trace. It is written atomically; the size that is printed is that of the page, which holds its data and styles.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import Printed, verb_of


@verb_of(Printed)
def run(
    printed: Printed,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a run (what --out named).")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page to write. [default: DIR/report.html]")
    ] = None,
) -> None:
    """Write report.html of a run: one file that opens without a network."""
    from wattqueue.formats.atomic_folder import write_text
    from wattqueue.report.load import load
    from wattqueue.report.run_page import report

    page = out or folder / "report.html"
    text = report(load(folder))
    write_text(page, text)
    size = len(text.encode("utf-8"))
    printed.show(lambda: {"page": str(page), "bytes": size}, lambda: [f"{page}: {size / 1e6:.1f} MB"])
