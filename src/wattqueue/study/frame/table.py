"""A table with a text form that fits a terminal, and an HTML form for the page.

The first column names the row and may be broken between words; the others hold figures. A table that is wider than
the terminal is printed in blocks of columns, each with the names of its rows.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from wattqueue.report.cards import card, grid, paragraph, together
from wattqueue.report.compare.stats import Estimate
from wattqueue.report.text_table import table as aligned

WIDTH = 80
"""Columns of a terminal."""
NAME_WIDTH = 22
"""Columns that the names of rows keep at least where figures leave no room for more."""
Cells = Sequence[str]


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
    """

    heads: Cells
    rows: Sequence[Cells]
    title: str = ""
    note: str = ""
    below: Sequence[str] = ()
    words: Sequence[int] = ()
    key: str = ""

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

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Yield title, rows and note as lines of at most ``width`` characters."""
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
        kinds = ["wrap" if k in words or k == 0 else "n" for k in range(len(heads))]
        note = paragraph(self.note) if self.note else ""
        return card(self.key, self.title, grid(self.title, heads, rows, kinds), note)


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


def with_interval(found: Estimate, sign: str = "+", digits: int = 1) -> str:
    """Return a mean with its 95 % interval: ± where it is symmetric, else both ends; alone where there is none."""
    if math.isnan(found.mean):
        return "–"
    text = f"{found.mean:{sign}z.{digits}f}"
    if found.low is None or found.high is None:
        return text
    below, above = found.mean - found.low, found.high - found.mean
    if abs(above - below) > 0.05 * max(above, below, 1.0):
        return f"{text} [{found.low:{sign}z.{digits}f}, {found.high:{sign}z.{digits}f}]"
    return f"{text} ±{above:.{digits}f}" if above < 10 else f"{text} ±{above:.0f}"
