"""Draw the figures of a run, or of several overlaid, as SVG and PDF, with the data of each as CSV.

One run gives the figures of its report, several give those of ``compare``: one curve per run, or per group of runs
that differ in their seed alone. Files are written all or none; the same data gives identical files.

Every figure is described once, as data (``report.figure``), and rendered here for each format; its CSV holds the
very points that are drawn, so that a paper can redraw it with other tools.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wattqueue.verbs import Printed, verb_of

if TYPE_CHECKING:
    from wattqueue.report.figure import Drawn


@verb_of(Printed)
def run(
    printed: Printed,
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Directories of runs (what --out named); several are drawn in one figure each."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to write. [DIR/figures; ./figures for several runs]")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="Formats, comma-separated: svg, pdf, png.")] = "svg,pdf",
    only: Annotated[str, typer.Option("--only", help="Figures, comma-separated: power, gantt, queue, …")] = "",
) -> None:
    """Draw the figures of a run as SVG and PDF, with the data of each as CSV beside it.

    Several runs are overlaid: one curve per run, or per group of runs that differ in their seed alone.
    """
    from wattqueue.formats.atomic_folder import write_files
    from wattqueue.report import plot
    from wattqueue.terminal import followed

    forms = plot.chosen(form, plot.FORMATS, "format")
    drawn = {figure.key: (figure, kind) for figure, kind in _figures(folders)}
    names = plot.chosen(only, tuple(drawn), "figure") if only else list(drawn)
    # All figures are rendered before the first file is written: an error leaves the folder as it was.
    files: dict[str, bytes | str] = {}
    for name in followed("drawing", names, "figures", quiet=printed.quiet):
        figure, kind = drawn[name]
        files |= {f"{name}.{ending}": plot.render(figure, kind, ending) for ending in forms}
        files[f"{name}.csv"] = plot.data_csv(figure)
    # Figures of several runs belong to none of their directories.
    where = out or (folders[0] / "figures" if len(folders) == 1 else Path("figures"))
    write_files(where, files)
    printed.show(
        lambda: {"folder": str(where), "files": [*files]},
        lambda: [f"{where}: {', '.join(names)} as {', '.join(forms)}, each with its data as CSV"],
    )


def _figures(folders: list[Path]) -> list[Drawn]:
    """Return the figures of one run, or those that overlay several. Raises InputError for a directory named twice."""
    from wattqueue.report.compare import document as comparison
    from wattqueue.report.compare.groups import grouped
    from wattqueue.report.compare.table import compare
    from wattqueue.report.load import load, load_members
    from wattqueue.report.run_page import pictures

    if len(folders) == 1:
        return pictures(load(folders[0]))
    return comparison.pictures(compare(grouped(load_members(folders))))
