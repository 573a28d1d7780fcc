"""Show a simulated run on the operator page, at any instant: a time slider takes the place of the clock.

The page is that of ``wattqueue live serve``. It answers this host alone, and without ``--names`` it shows no names of
users and applications: other accounts of the host can open it too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a run (what --out named).")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of this host; 0: any free one.")] = 8436,
    names: Annotated[bool, typer.Option("--names", help="Show names of users and applications to everybody.")] = False,
) -> None:
    """Show a simulated run on the operator page, at any instant, until stopped."""
    from wattqueue.formats.rundir.folder import read_run
    from wattqueue.page.app import Page
    from wattqueue.page.recorded import RecordedRun
    from wattqueue.page.server import local_names, serve
    from wattqueue.terminal import say

    shown = RecordedRun(read_run(folder), folder.resolve().name)
    address = "127.0.0.1"
    serve(Page(shown.feed, hosts=local_names(address), open_names=names), address, port, 100, say)
