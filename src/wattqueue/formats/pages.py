"""Texts and pictures beside a run: written atomically, all of a set or none.

Verbs of the command line and ``wattqueue.api`` write their reports, figures and documents through these functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wattqueue.formats.atomic_write import atomic_folder, atomic_text


def write_text(path: Path, text: str) -> None:
    """Write one text file. Raises: OutputError; ``path`` is then as before."""
    atomic_text(path, text)


def write_files(folder: Path, files: Mapping[str, bytes | str]) -> None:
    """Write several files of one folder, all of them or none; files of other names stay.

    ``files`` maps names to text (written as UTF-8) or bytes. Reports use it for a page with its pictures.

    Raises: OutputError.
    """
    with atomic_folder(folder) as temporary:
        for name, content in files.items():
            data = content.encode("utf-8") if isinstance(content, str) else content
            (temporary / name).write_bytes(data)
