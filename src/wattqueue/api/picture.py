"""One figure of a run: shown by a notebook as SVG, written as SVG, PDF, PNG or CSV. Needs the extra ``plot``.

Drawing is that of ``wattqueue plot`` (``report.plot``): for papers, on a white ground, the same data giving identical
files. It takes a second or two the first time, because matplotlib is imported then; so a picture is drawn when it is
shown or saved, and once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.api.inputs import PathLike
from wattqueue.errors import InputError
from wattqueue.formats.atomic_write import atomic_write
from wattqueue.report import plot
from wattqueue.report.figure import Figure

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure as ``wattqueue plot`` draws it, with its data."""

    figure: Figure
    """Columns in SI units, axes, and the sentence that states the result."""
    kind: str
    """Kind of picture; a key of ``report.plot.kinds``."""

    def __repr__(self) -> str:
        return f"<{self.figure.title}. {self.figure.says}>"

    @cached_property
    def svg(self) -> str:
        """Return the picture as SVG."""
        return plot.render(self.figure, self.kind, "svg").decode("utf-8")

    @cached_property
    def frame(self) -> pl.DataFrame:
        """Return the data of the picture as a polars frame, in SI units."""
        import polars as pl

        return pl.DataFrame(dict(self.figure.columns), nan_to_null=True)

    def save(self, path: PathLike) -> Path:
        """Write the picture; the ending of the name decides the format: .svg, .pdf, .png, or .csv for its data.

        Raises: InputError for another ending; OutputError.
        """
        file = Path(path)
        ending = file.suffix.removeprefix(".").lower()
        if ending == "csv":
            content = plot.data_csv(self.figure).encode("utf-8")
        elif ending in plot.FORMATS:
            content = plot.render(self.figure, self.kind, ending)
        else:
            known = ", ".join(f".{form}" for form in (*plot.FORMATS, "csv"))
            raise InputError("no picture ends like this", where=file, hint=f"any of {known}")
        with atomic_write(file) as temporary:
            temporary.write_bytes(content)
        return file

    def _repr_svg_(self) -> str:
        """Return what a notebook shows."""
        return self.svg
