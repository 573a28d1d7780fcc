"""A table as lines of plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Cells = Sequence[str]


def table(header: Cells, rows: Iterable[Cells]) -> list[str]:
    """Columns of equal width, the first to the left, the others to the right."""
    lines = [header, *rows]
    width = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return [
        "  ".join(
            c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, width, strict=True))
        ).rstrip()
        for line in lines
    ]


def without_gaps(header: Cells, rows: Iterable[Cells], gap: str = "–") -> tuple[Cells, list[Cells]]:
    """Header and rows without the columns that hold nothing but gaps."""
    rows = list(rows)
    keep = [k for k in range(len(header)) if any(row[k] != gap for row in rows)]
    return [header[k] for k in keep], [[row[k] for k in keep] for row in rows]
