"""Draw the figures of a run as SVG and PDF, with the data of each as CSV beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a run (what --out named).")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write. [default: DIR/figures]")] = None,
    form: Annotated[str, typer.Option("--format", help="Formats, comma-separated: svg, pdf, png.")] = "svg,pdf",
    only: Annotated[str, typer.Option("--only", help="Figures, comma-separated: power, gantt, queue, …")] = "",
) -> None:
    """Draw the figures of a run as SVG and PDF, with the data of each as CSV beside it."""
    from wattqueue.formats.pages import write_files
    from wattqueue.report import plot
    from wattqueue.report.document import pictures
    from wattqueue.report.load import load

    forms = plot.chosen(form, plot.FORMATS, "format")
    drawn = {figure.key: (figure, kind) for figure, kind in pictures(load(folder))}
    names = plot.chosen(only, tuple(drawn), "figure") if only else list(drawn)
    files: dict[str, bytes | str] = {}
    for name in names:
        figure, kind = drawn[name]
        files |= {f"{name}.{ending}": plot.render(figure, kind, ending) for ending in forms}
        files[f"{name}.csv"] = plot.data_csv(figure)
    where = out or folder / "figures"
    write_files(where, files)
    typer.echo(f"{where}: {', '.join(names)} as {', '.join(forms)}, each with its data as CSV")
