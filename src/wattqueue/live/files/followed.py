"""What a file must be that is read again whenever it changes."""

from __future__ import annotations

from pathlib import Path

from wattqueue.errors import InputError


def refuse_pipe(path: Path) -> None:
    """Refuse a pipe, a socket or a device: a read might never end. What is absent, or a folder, readers name.

    Raises: InputError.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError("is a pipe, a socket or a device", where=path, hint="name a file: it is read when it changes")
