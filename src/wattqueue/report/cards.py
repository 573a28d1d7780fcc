"""Cards of a page and the tables in them, as HTML. Text is escaped, unless it is ``Html``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape


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


def paragraph(text: str) -> str:
    """Return a paragraph (HTML) of small text."""
    return f'<p class="note">{markup(text)}</p>'


def card(key: str, title: str, *inner: str) -> str:
    """Return a section (HTML) with a heading; ``key`` is the id of its element or empty, ``inner`` is HTML."""
    named = f' id="{key}"' if key else ""
    return f'<section class="card"{named}><h2>{markup(title)}</h2>{"".join(inner)}</section>'


def grid(label: str, heads: Sequence[str], rows: Iterable[Sequence[str]], kinds: Sequence[str] = ()) -> str:
    """Return a table (HTML) of which no cell is cut at any width: where it is too wide, each row becomes a block.

    Args:
        label: What a screen reader says of it.
        heads: Heads of the columns; in a block each cell carries its head.
        rows: Cells, the first of which heads its row; an empty one is shown as a dash in a column of figures.
        kinds: Class of each column: ``n`` for figures, ``wrap`` or ``breaks`` for text that may break; none is ``""``.
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
