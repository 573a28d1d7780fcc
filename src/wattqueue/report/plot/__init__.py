"""Draw figures for papers: SVG, PDF and PNG by matplotlib, and the data of each as CSV.

matplotlib is imported when a figure is drawn, never before (extra ``plot``).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from wattqueue.errors import InputError
from wattqueue.report.figure import Figure

FORMATS = ("svg", "pdf", "png")
"""File formats that can be drawn."""
_SIZE = re.compile(r'width="[^"]*" height="[^"]*" (viewBox="[^"]*")')
_RULES = re.compile(r"<style[^>]*>\*\{([^}]*)\}</style>")
"""Rules that matplotlib states for every element: in a page they would reach all other elements of it, too."""


def render(figure: Figure, kind: str, form: str = "svg") -> bytes:
    """Return a figure as the bytes of an SVG, PDF or PNG file. The same data gives identical files.

    Raises:
        ModuleNotFoundError: matplotlib is missing (extra ``plot``).
    """
    from wattqueue.report.plot import style

    return _drawn(figure, kind, form, {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[form], style.RC)


def inline(figure: Figure, kind: str) -> str:
    """Return a figure as an SVG element for a page whose theme is not known, as notebooks have.

    Text, axes and limits have the colour of the page's text, and the background is the page's. The figure's sentence
    becomes title and label, for readers who do not see the picture. Nothing in it refers to another place.

    Raises:
        ModuleNotFoundError: matplotlib is missing (extra ``plot``).
    """
    from wattqueue.report.plot import style

    none = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    svg = _drawn(figure, kind, "svg", none, style.RC | style.CLEAR).decode("utf-8")
    svg = re.sub(r"(\.[0-9]{2})[0-9]+", r"\1", svg)  # hundredths of a point are enough: a notebook stores it
    for colour, opacity in style.OF_THE_PAGE.items():
        svg = re.sub(f"(fill|stroke): {colour}", rf"\1: currentColor; \1-opacity: {opacity:g}", svg)
    rules, says = _RULES.search(svg), escape(figure.says)
    look = f"width:100%;max-width:760px;height:auto;display:block;color:inherit;{rules[1] if rules else ''}"
    head = f'role="img" aria-label="{says}" style="{look}"'
    element = _SIZE.sub(rf"{head} \1", _RULES.sub("", svg[svg.index("<svg") :]), count=1)
    return element.replace(">", f"><title>{says}</title>", 1)


def _drawn(figure: Figure, kind: str, form: str, metadata: dict[str, None], settings: dict[Any, Any]) -> bytes:
    """Return a figure as matplotlib draws it with these settings."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from wattqueue.report.plot import style
    from wattqueue.report.plot.kinds import KINDS

    with rc_context(settings):
        drawn = style.blank(kind)
        FigureCanvasAgg(drawn)
        KINDS[kind](drawn, figure)
        out = io.BytesIO()
        drawn.canvas.print_figure(out, format=form, metadata=metadata, bbox_inches="tight", pad_inches=0.06)
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
