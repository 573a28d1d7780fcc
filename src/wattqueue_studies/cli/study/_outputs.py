"""Check output files of a study before its work begins: a study takes minutes to hours, its files are written last."""

from __future__ import annotations

from pathlib import Path

from wattqueue.errors import InputError

PROBE_BYTES = 4_000_000
"""Bytes that are written on trial to each output's file system; the largest JSON of a study has some megabytes."""


class _ProbeOverError(Exception):
    """Leaves an atomic write, so that nothing is replaced."""


def require_writable(*files: Path | None) -> None:
    """Check that each file can be written: no folder stands there, folder and permissions allow it, space is left.

    A temporary file of ``PROBE_BYTES`` is written beside each file and removed; the files themselves stay as they are,
    and missing folders are created, as writing would. Streams and devices (``/dev/stdout``) are not tried.

    Raises: OutputError naming the file that cannot be written; InputError for one file that is named twice.
    """
    from wattqueue.formats.atomic_write import atomic_write
    from wattqueue.formats.pages import refuse_folders

    refuse_folders(*files)
    named = [path for path in files if path is not None]
    if len({path.absolute() for path in named}) < len(named):
        raise InputError("two outputs name one file", where=named[0], hint="name a file for each")
    for path in named:
        # A device or pipe: a trial write would reach whoever reads it.
        if path.exists() and not path.is_file():
            continue
        try:
            with atomic_write(path) as temporary:
                temporary.write_bytes(bytes(PROBE_BYTES))
                # Leaving by an exception makes atomic_write remove its temporary file instead of renaming it.
                raise _ProbeOverError
        except _ProbeOverError:
            pass
