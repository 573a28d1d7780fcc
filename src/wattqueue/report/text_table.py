"""Tables as lines of plain text, for the terminal and for golden files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Cells = Sequence[str]
"""One line of a table, cell by cell."""


def table(header: Cells, rows: Iterable[Cells]) -> list[str]:
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
