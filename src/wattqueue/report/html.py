"""Frame of an HTML page, its figures, cards and tables.

``page`` fills ``page/report.html``: style, scripts, ECharts and the data of all figures become part of the file, so
that it opens without a network and can be sent by mail. The content security policy of the frame forbids any request.
Figures are (Figure, kind) pairs; the kind names a function of ``page/*.js``. Text is escaped, unless it is ``Html``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from wattqueue.report.figure import Drawn, Figure
from wattqueue.report.payload import encode, script_json
from wattqueue.version import __version__

SCRIPTS = ("core.js", "charts.js", "boxes.js", "gantt.js", "compare.js", "points.js", "whatif.js", "page.js")
"""Scripts of the page in the order in which they depend on each other; ``page.js`` starts the charts."""
TIMED = ("power", "gantt", "queue", "overlay", "hours")
"""Kinds with a time axis: they have zoom buttons and move together."""
SMALL = ("cdf", "density", "bars", "cdfs", "delayed_users", "capcurve-small")
"""Kinds that take half of the width, in pairs."""
MOST_LINKED = 9
"""Figures in the navigation of a page; a page with more links its other parts only."""
EMPHASIS = re.compile(r"\*\*(.+?)\*\*|`([^`]+)`")
"""Marks in a sentence."""
ECHARTS_VERSION = re.compile(r"Apache ECharts\]\(.*?\) (\S+),")
"""Where the vendored README states the version of ECharts."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def together(text: str) -> str:
    """Put a non-breaking space between each number and its unit, so that no line ends with a number."""
    return re.sub(r"([0-9]) (?=[A-Za-z%])", "\\1\u00a0", text)


def markup(text: str) -> str:
    """Return text as HTML; a second line is small."""
    if isinstance(text, Html):
        return text
    first, _, more = text.partition("\n")
    return escape(together(first)) + (f"<small>{escape(more)}</small>" if more else "")


def marked_up(text: str) -> str:
    """Return a sentence as HTML, with the ``**strong**`` and `` `code` `` in it."""
    return EMPHASIS.sub(lambda hit: _emphasized(hit[1], hit[2]), text if isinstance(text, Html) else markup(text))


def _emphasized(strong: str | None, code: str) -> str:
    return f"<code>{code}</code>" if strong is None else f"<strong>{strong}</strong>"


def plain(text: str) -> str:
    """Return a sentence without the marks of ``marked_up``."""
    return EMPHASIS.sub(lambda hit: hit[1] or hit[2], text)


def paragraph(text: str) -> str:
    """Return a paragraph (HTML) of small text."""
    return f'<p class="note">{marked_up(text)}</p>'


def kind_mark(kind: str) -> Html:
    """Return where a figure comes from (``measured``, ``generated``, ...) with the mark of its kind."""
    return Html(f'<span class="kind {escape(kind)}">{escape(kind)}</span>')


def card(key: str, title: str, *inner: str) -> str:
    """Return a section (HTML) with a heading; ``key`` is the id of its element or empty, ``inner`` is HTML."""
    named = f' id="{key}"' if key else ""
    return f'<section class="card"{named}><h2>{markup(title)}</h2>{"".join(inner)}</section>'


def grid(label: str, heads: Sequence[str], rows: Iterable[Sequence[str]], kinds: Sequence[str] = ()) -> str:
    """Return a table (HTML) of which no cell is cut at any width: where it is too wide, each row becomes a block.

    A row with an ``answer`` is shown as one line there, its name and the answer, with a button for its other cells.

    Args:
        label: What a screen reader says of it.
        heads: Heads of the columns; in a block each cell carries its head.
        rows: Cells, the first of which heads its row; an empty one is shown as a dash in a column of figures.
        kinds: Classes of each column: ``n`` for figures, ``wrap`` or ``breaks`` for text that may break, ``answer``
            beside them; none is ``""``.
    """
    marks = [f' class="{kind}"' if kind else "" for kind in kinds] or [""] * len(heads)
    top = "".join(f'<th scope="col"{mark}>{markup(head)}</th>' for head, mark in zip(heads, marks, strict=True))
    labels = [escape(" ".join(head.split())) for head in heads]
    body = ""
    for name, *cells in rows:
        found = zip(marks[1:], labels[1:], cells, strict=True)
        data = "".join(f'<td{m} data-label="{head}"><span>{markup(cell)}</span></td>' for m, head, cell in found)
        body += f'<tr><th scope="row"{marks[0]}>{markup(name)}</th>{data}</tr>'
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(label)}"><table class="side">'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def page(
    *,
    title: str,
    eyebrow: str,
    lede: str,
    body: str,
    drawn: Sequence[Drawn],
    footer: str,
    links: Sequence[tuple[str, str]],
    folds: bool = False,
) -> str:
    """Return a whole page: the frame around figures and tables.

    Args:
        title: Heading and window title, plain text.
        eyebrow: Line above the heading, plain text.
        lede: First sentences.
        body: Everything below it, HTML; it must contain the elements of ``figures_html`` for each figure of
            ``drawn``.
        drawn: Figures and their kinds; their data is embedded as JSON.
        footer: Last line.
        links: Further entries of the navigation as (element id, text).
        folds: Whether a telephone shows the first section only, and of the others their headings, to be opened.
    """
    linked = drawn if len(drawn) <= MOST_LINKED else ()  # more entries would not fit the bar
    nav = [(f"fig-{f.key}", f.key.capitalize().replace("-", " ")) for f, _ in linked] + list(links)
    parts = {
        "version": __version__,
        "title": escape(together(title)),
        "eyebrow": escape(eyebrow),
        "lede": marked_up(lede),
        "nav": "".join(f'<a href="#{key}">{escape(name)}</a>' for key, name in nav),
        "fold": " data-fold" if folds else "",
        "body": body,
        "footer": marked_up(footer),
        "echarts": echarts_version(),
        "css": part("page/report.css"),
        "theme": part("page/theme.js"),
        "data": script_json({"figures": [encode(f, kind) for f, kind in drawn]}),
        "library": part("vendor/echarts.min.js"),
        "script": "\n".join(part(f"page/{name}") for name in SCRIPTS),
    }
    # A function as replacement: text with backslashes or group references in it must not be interpreted.
    return re.sub(r"\{\{(\w+)\}\}", lambda hit: parts[hit[1]], part("page/report.html"))


def part(name: str) -> str:
    """Return a file of this package that becomes part of the page."""
    return files("wattqueue.report").joinpath(name).read_text(encoding="utf-8")


def echarts_version() -> str:
    """Return the version of the vendored ECharts, read from the README beside it; empty if it is not stated."""
    hit = ECHARTS_VERSION.search(part("vendor/README.md"))
    return hit[1] if hit else ""


ZOOM = (
    '<div class="zoom" role="group" aria-label="Zoom in time">'
    '<button type="button" data-key="-" aria-label="Zoom out" title="Zoom out (−)">−</button>'
    '<button type="button" data-key="+" aria-label="Zoom in" title="Zoom in (+)">+</button>'
    '<button type="button" data-key="ArrowLeft" aria-label="Earlier" title="Earlier (←)">←</button>'
    '<button type="button" data-key="ArrowRight" aria-label="Later" title="Later (→)">→</button>'
    '<button type="button" data-key="0" aria-label="All of it" title="All of it (0)">↺</button></div>'
)
"""Buttons of a chart over time (HTML); ``data-key`` is the key that does the same."""


def figures_html(drawn: Sequence[Drawn]) -> str:
    """Return the elements of all figures (HTML).

    Small figures (``SMALL``) are placed in pairs; if their number is odd, the last one takes the whole width. The
    charts themselves are drawn by ``page/*.js`` into the empty elements.
    """
    small = [kind in SMALL for _, kind in drawn]
    if sum(small) % 2:
        # An odd number: the last small figure would stand alone beside a gap.
        small[max(k for k, narrow in enumerate(small) if narrow)] = False
    return "".join(figure_html(f, kind, half=half) for (f, kind), half in zip(drawn, small, strict=True))


def figure_html(figure: Figure, kind: str, *, half: bool) -> str:
    """Return the element of one figure (HTML): heading, buttons, chart, sentence, and the table of its data.

    The chart can be focused and has a label with its axes; the sentence is its description. Charts over time react to
    arrow keys, plus, minus and 0, which the label says.
    """
    key, name = figure.key, escape(figure.title)
    tools = choice(figure) + (colour_switch(figure) if kind == "gantt" else "") + (ZOOM if kind in TIMED else "")
    chosen = f'<span class="chosen">{escape(figure.called)}</span>' if figure.others else ""
    keys = " Arrow keys move in time, plus and minus zoom, 0 shows all." if kind in TIMED else ""
    label = f"{name}. {escape(figure.x.label)} across, {escape(figure.y.label)} up.{keys}"
    return (
        f'<figure class="fig{" half" if half else ""}" id="fig-{key}" data-kind="{kind}">'
        f'<header><h2 id="h-{key}">{name}</h2>{chosen}{f"<div class=tools>{tools}</div>" if tools else ""}</header>'
        '<div class="key"></div>'
        '<div class="chart" tabindex="0" role="group" aria-roledescription="chart" '
        f'aria-label="{label}" aria-describedby="s-{key}"></div>'
        f'<figcaption class="says" id="s-{key}">{escape(together(figure.says))}</figcaption>'
        f"<details><summary>Data of this figure</summary></details></figure>"
    )


def choice(figure: Figure) -> str:
    """Return the list of configurations a figure can show (HTML), empty where there is only one."""
    names = [figure.called, *(other.called for other in figure.others)]
    options = "".join(f"<option>{escape(name)}</option>" for name in names)
    return f'<label class="choose">Configuration <select>{options}</select></label>' if figure.others else ""


def colour_switch(figure: Figure) -> str:
    """Return the buttons that colour the Gantt chart by power, user or frequency (HTML).

    Empty where only one is known.
    """
    extra = figure.extra
    found = [
        name
        for name, there in (("power", extra["power"]), ("user", extra["has_users"]), ("frequency", extra["frequency"]))
        if there
    ]
    checked = [" checked", *[""] * len(found)]
    options = "".join(
        f'<label><input type="radio" name="colour" value="{name}"{mark}><span>{name}</span></label>'
        for name, mark in zip(found, checked, strict=False)
    )
    return f"<fieldset><legend>Colour by</legend>{options}</fieldset>" if len(found) > 1 else ""
