"""A document: title, sentences, tables and figures, rendered to a terminal, Markdown, HTML and CSV.

Whoever has something to show builds a ``Document`` of blocks; how it looks is decided here and in ``report.html`` only.
Sentences may hold ``**strong**`` and code between grave accents, which a terminal shows without the marks.

The first column of a table names the row and may be broken between words; the others hold figures. A table that is
wider than the terminal is printed in blocks of columns, each with the names of its rows.
"""

from __future__ import annotations

import csv
import io
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from wattqueue.report.figure import Drawn
from wattqueue.report.html import Html, card, figures_html, grid, page, paragraph, plain, together
from wattqueue.version import __version__

WIDTH = 80
"""Columns of a terminal."""
UNBROKEN = sys.maxsize
"""Width of what is searched and cut by other programs: a sentence is one line, a table one block."""
NAME_WIDTH = 22
"""Columns that the names of rows keep at least where figures leave no room for more."""
Cells = Sequence[str]


class Block(Protocol):
    """A part of a document: a table, paragraphs, figures."""

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Yield the part as lines of at most ``width`` characters."""
        ...

    def markdown(self) -> Iterator[str]:
        """Yield the part as Markdown under a heading of the second level."""
        ...

    def html(self) -> str:
        """Return the part as a card of the page."""
        ...


@dataclass(frozen=True, kw_only=True)
class Document:
    """What a command, a study or a notebook shows.

    Attributes:
        title: Heading.
        lede: The result in a sentence or two.
        blocks: Parts of the page in their order. A text is a sentence, ``Html`` a card of its own form.
        eyebrow: Line above the heading.
        links: Entries of the page's navigation beside its figures: element id and text.
        footer: Last line of the page.
        top: What stands between the lede and the cards (HTML).
        text: Parts of the text in their order, where they are not those of the page; an empty one is an empty line.
        folds: Whether a telephone shows the first block only, and of the others their headings, to be opened.
    """

    title: str
    lede: str = ""
    blocks: Sequence[Block | str] = ()
    eyebrow: str = ""
    links: Sequence[tuple[str, str]] = ()
    footer: str = f"Made by WattQueue {__version__}."
    top: str = ""
    text: Sequence[Block | str] = ()
    folds: bool = False

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Yield the text as lines of at most ``width`` characters."""
        for part in self.text or self.blocks:
            yield from ((wrapped(plain(part), width) or [""]) if isinstance(part, str) else part.lines(width))

    def markdown(self) -> Iterator[str]:
        """Yield the text as Markdown lines."""
        yield from (f"# {self.title}", "")
        for part in self.text or self.blocks:
            yield from ([part] if isinstance(part, str) else part.markdown())

    def html(self) -> str:
        """Return one self-contained page."""
        cards = [_of_text(part) if isinstance(part, str) else part.html() for part in self.blocks]
        return page(
            title=self.title,
            eyebrow=self.eyebrow,
            lede=self.lede,
            body="\n".join([self.top, '<div class="figures">', *cards, "</div>"]),
            drawn=[one for part in self.blocks if isinstance(part, Figures) for one in part.drawn],
            footer=self.footer,
            links=self.links,
            folds=self.folds,
        )


def _of_text(text: str) -> str:
    """Return a text among the blocks as a card: ``Html`` as it is, a sentence as a paragraph."""
    return text if isinstance(text, Html) else paragraph(text)


@dataclass(frozen=True, slots=True)
class Table:
    """Heads and rows of text. In heads a line break separates the head from its second line.

    Attributes:
        heads: One per column, the first for the names of the rows.
        rows: Cells as text, as many as heads.
        title: Heading.
        note: A sentence below the table.
        below: One text per row that is printed below it, or nothing at all; on the page the last column has it.
        words: Columns of text, which may be broken on the page; the other columns are figures.
        key: Id of the element on the page.
        short: Heads of the text, where they are not those of the page; a column with an empty one is on the page only.
        kinds: Classes of all columns on the page (``html.grid``), where ``words`` does not say them.
        notes: Further sentences below the table, on the page.
        answer: Columns that hold the answer: all that a telephone shows of a row until it is opened.
    """

    heads: Cells
    rows: Sequence[Cells]
    title: str = ""
    note: str = ""
    below: Sequence[str] = ()
    words: Sequence[int] = ()
    key: str = ""
    short: Cells = ()
    kinds: Cells = ()
    notes: Sequence[str] = ()
    answer: Sequence[int] = ()

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        columns: Sequence[tuple[str, Callable[[str], str]]],
        title: str,
        note: str = "",
        *,
        head: str,
        key: str = "",
    ) -> Table:
        """Return a table from the names of its rows and its columns: head, and the function that gives a row's cell."""
        rows = [[name, *(cell(name) for _, cell in columns)] for name in names]
        return cls((head, *(column for column, _ in columns)), rows, title, note, key=key)

    @property
    def columns_of_text(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of the text, without the columns that only the page shows."""
        short = self.short or self.heads
        keep = [k for k, head in enumerate(short) if head or not self.short]
        return [short[k] for k in keep], [[row[k] for k in keep] for row in self.rows]

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Yield title, rows and note as lines of at most ``width`` characters."""
        if self.short:
            heads, rows = self.columns_of_text
            yield from replace(self, heads=heads, rows=rows, title="", short=()).lines(width)
            return
        yield from wrapped(self.title, width)
        heads = [" ".join(head.split("\n")) for head in self.heads]
        for block in self._blocks(heads, width):
            yield from self._block(heads, block, width)
        yield from wrapped(self.note, width)

    def _blocks(self, heads: Cells, width: int) -> list[list[int]]:
        """Return the columns of each block, without the first: as many as fit."""
        blocks: list[list[int]] = [[]]
        left = width - self._least
        for k in range(1, len(heads)):
            need = 2 + max(len(heads[k]), *(len(row[k]) for row in self.rows), 0)
            if need > left and blocks[-1]:
                blocks.append([])
                left = width - self._least
            blocks[-1].append(k)
            left -= need
        return blocks

    @property
    def _names(self) -> list[str]:
        """Return the texts of the first column, the head first."""
        return [" ".join(self.heads[0].split("\n")), *(row[0] for row in self.rows)]

    @property
    def _least(self) -> int:
        """Return the width below which the first column is not broken: its longest word counts whole."""
        words = max(len(word) + 2 for name in self._names for word in (name.split() or [""]))
        return min(max(map(len, self._names)), max(NAME_WIDTH, words))

    def _block(self, heads: Cells, columns: list[int], width: int) -> Iterator[str]:
        """Yield some columns; names are broken to what the columns leave."""
        figures = aligned(["", *(heads[k] for k in columns)], [["", *(row[k] for k in columns)] for row in self.rows])
        room = min(max(map(len, self._names)), max(width - max(map(len, figures)), self._least))
        for i, (name, cells) in enumerate(zip(self._names, figures, strict=True)):
            first, *more = wrapped(name, room, more="  ") or [""]
            yield (first.ljust(room) + cells).rstrip()
            yield from more
            if i and self.below and self.below[i - 1]:
                yield from wrapped(self.below[i - 1], width, "    ", "    ")

    def markdown(self) -> Iterator[str]:
        """Yield the table as Markdown under a heading."""
        yield from (f"## {self.title}", "")
        heads = [*self.heads, "reason"] if self.below else list(self.heads)
        yield "| " + " | ".join(" ".join(head.split("\n")) for head in heads) + " |"
        yield "|---|" + "---:|" * (len(heads) - 1)
        for i, row in enumerate(self.rows):
            yield "| " + " | ".join([*row, self.below[i]] if self.below else row) + " |"
        if self.note:
            yield from ("", self.note)

    def html(self) -> str:
        """Return the table as a card of the page; on narrow screens each cell carries its head."""
        heads = [*self.heads, "Reason"] if self.below else list(self.heads)
        rows = [[*row, self.below[i]] for i, row in enumerate(self.rows)] if self.below else self.rows
        words = {*self.words, len(heads) - 1} if self.below else set(self.words)
        kinds = self.kinds or ["wrap" if k in words or k == 0 else "n" for k in range(len(heads))]
        kinds = [f"{kind} answer".strip() if k in self.answer else kind for k, kind in enumerate(kinds)]
        notes = [note for note in (self.note, *self.notes) if note]
        return card(self.key, self.title, grid(self.title, heads, rows, kinds), *map(paragraph, notes))


class Tabled:
    """What is shown as one table: its text and its card are those of ``table``."""

    __slots__ = ()

    def table(self) -> Table:
        """Return the table of text."""
        raise NotImplementedError

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Yield the table as lines of at most ``width`` characters."""
        yield from self.table().lines(width)

    def markdown(self) -> Iterator[str]:
        """Yield the table as Markdown under a heading."""
        yield from self.table().markdown()

    def html(self) -> str:
        """Return the table as a card of the page."""
        return self.table().html()


@dataclass(frozen=True, slots=True)
class Prose:
    """Paragraphs under a heading, which only the page shows; ``key`` is the id of its element there."""

    title: str
    paragraphs: Sequence[str]
    key: str = ""

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Yield the paragraphs as lines of at most ``width`` characters."""
        for text in self.paragraphs:
            yield from wrapped(text, width)

    def markdown(self) -> Iterator[str]:
        """Yield the paragraphs as Markdown under a heading."""
        yield f"## {self.title}"
        for text in self.paragraphs:
            yield from ("", text)

    def html(self) -> str:
        """Return the paragraphs as a card of the page."""
        return card(self.key, self.title, *map(paragraph, self.paragraphs))


def wrapped(text: str, width: int = WIDTH, first: str = "", more: str = "") -> list[str]:
    """Return a text broken between words, but never between a number and its unit; nothing for an empty text.

    ``first`` and ``more`` indent the first line and the others.
    """
    lines = textwrap.wrap(together(text), width, initial_indent=first, subsequent_indent=more, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures with their kinds, which only the page shows."""

    drawn: Sequence[Drawn]

    def lines(self, _width: int = WIDTH) -> Iterator[str]:
        """Yield nothing."""
        yield from ()

    def markdown(self) -> Iterator[str]:
        """Yield nothing."""
        yield from ()

    def html(self) -> str:
        """Return the elements of all figures."""
        return figures_html(self.drawn)


def aligned(header: Cells, rows: Iterable[Cells]) -> list[str]:
    """Return lines with columns of equal width, the first column aligned left, the others right.

    Blanks at the ends of lines are removed, so that golden files do not depend on editors.
    """
    lines = [header, *rows]
    width = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return [
        "  ".join(
            c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, width, strict=True))
        ).rstrip()
        for line in lines
    ]


def without_gaps(header: Cells, rows: Iterable[Cells], gap: str = "–") -> tuple[Cells, list[Cells]]:
    """Return header and rows without the columns in which every cell is ``gap``."""
    rows = list(rows)
    keep = [k for k in range(len(header)) if any(row[k] != gap for row in rows)]
    return [header[k] for k in keep], [[row[k] for k in keep] for row in rows]


def csv_text(heads: Cells, rows: Iterable[Sequence[Any]], lead: str = "") -> str:
    """Return rows below the names of their columns as CSV, with line feeds as line ends; None is an empty cell.

    ``lead`` is a comment line above them.
    """
    out = io.StringIO()
    out.write(f"# {lead}".rstrip() + "\n" if lead else "")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return out.getvalue()


def rows_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return mappings as CSV. The columns are those of the longest row first, then what other rows add."""
    names = list(dict.fromkeys(name for row in sorted(rows, key=len, reverse=True) for name in row))
    return csv_text(names, ([row.get(name) for name in names] for row in rows))
