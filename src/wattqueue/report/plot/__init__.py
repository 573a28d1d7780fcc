"""Draw figures for papers: SVG, PDF and PNG by matplotlib, and the data of each as CSV.

matplotlib is imported when a figure is drawn, never before (extra ``plot``).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from wattqueue.errors import InputError
from wattqueue.report.figure import Figure

FORMATS = ("svg", "pdf", "png")
"""File formats that can be drawn."""


def render(figure: Figure, kind: str, form: str = "svg") -> bytes:
    """Return a figure as the bytes of an SVG, PDF or PNG file. The same data gives identical files.

    Raises:
        ModuleNotFoundError: matplotlib is missing (extra ``plot``).
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from wattqueue.report.plot import style
    from wattqueue.report.plot.kinds import KINDS

    with rc_context(style.RC):
        drawn = style.blank(kind)
        FigureCanvasAgg(drawn)
        KINDS[kind](drawn, figure)
        out = io.BytesIO()
        stamp = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[form]
        drawn.canvas.print_figure(out, format=form, metadata=stamp, bbox_inches="tight", pad_inches=0.06)
    return out.getvalue()


def chosen(text: str, known: Sequence[str], what: str) -> list[str]:
    """Return the names of a comma-separated list. Raises InputError for an unknown name, or none."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    wrong = next((name for name in names if name not in known), None)
    if wrong is not None or not names:
        raise InputError(
            f"unknown {what} {wrong or text!r}",
            where=f"--{what if what == 'format' else 'only'}",
            hint=f"any of {', '.join(known)}",
        )
    return names


def data_csv(figure: Figure) -> str:
    """Return the columns of a figure as CSV in SI units; an unknown or missing value is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(figure.columns)
    columns: Sequence[list[object]] = [column.tolist() for column in figure.columns.values()]
    writer.writerows([_cell(value) for value in row] for row in zip(*columns, strict=True))
    return out.getvalue()


def _cell(value: object) -> object:
    """Return a CSV cell: empty for NaN, else the value."""
    # NaN alone differs from itself; an infinite cap is written as inf.
    return "" if value != value else value  # noqa: PLR0124
