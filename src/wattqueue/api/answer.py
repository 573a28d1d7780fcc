"""What the answers of ``plan`` and ``whatif`` share: notebooks show them, and they are saved as the verbs' files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wattqueue.api.inputs import PathLike
from wattqueue.formats.atomic_folder import write_files, write_text
from wattqueue.report.document import Document


class SavedAnswer:
    """An answer as a page and files, which the command line writes too."""

    shown: Document
    """What terminals and notebooks show."""
    files: Mapping[str, str]
    """Text of every file that ``save`` writes, by name; ``report.html`` is the page."""

    def report(self, path: PathLike) -> Path:
        """Write the page with tables and figures, one HTML file; return its path. Raises: OutputError."""
        write_text(Path(path), self.files["report.html"])
        return Path(path)

    def save(self, folder: PathLike) -> Path:
        """Write all files into a folder, as the command line does; return the folder. Raises: OutputError."""
        write_files(Path(folder), self.files)
        return Path(folder)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from wattqueue.api.notebook import document_html

        return document_html(self.shown)
