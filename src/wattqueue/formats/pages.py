"""Texts and pictures that stand beside a run: written aside and renamed, all of a set or none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wattqueue.formats._aside import aside, aside_folder


def write_text(path: Path, text: str) -> None:
    """One text file. Raises: OutputError; ``path`` is then as before."""
    with aside(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """One JSON file. Raises: OutputError as ``write_text``."""
    write_text(path, json.dumps(document, allow_nan=False, indent=1) + "\n")


def write_files(folder: Path, files: Mapping[str, bytes | str]) -> None:
    """Several files of one folder, all of them or none; files of other names stay. Raises: OutputError."""
    with aside_folder(folder) as temporary:
        for name, content in files.items():
            data = content.encode("utf-8") if isinstance(content, str) else content
            (temporary / name).write_bytes(data)
