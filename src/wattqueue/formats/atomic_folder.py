"""Write several files of one folder atomically, and report what is about to be replaced.

``atomic_folder`` does for several files of one folder what ``formats.atomic_write`` does for one; ``write_text`` and
``write_files`` write texts and pictures beside a run: all of a set or none. Verbs of the command line report with
``written`` what they are about to replace. They stand by themselves since the processes that write to a cluster, which
somebody has to read as a whole, need none of them.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from wattqueue.errors import OutputError
from wattqueue.formats.source import exists


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder whose files become those of ``folder`` when the block ends without an error.

    A new folder appears by one rename. A folder that exists stays the same folder, with its permissions,
    group and files of other names: our files are moved in one by one, all of them complete and on disk before
    the first one moves, so that a full disk leaves the folder as it was. The temporary folder then lies
    inside it, on the same file system and in the same group.

    Raises: OutputError where the folder cannot be written or the disk is full.
    """
    from wattqueue.formats.atomic_write import not_written, rename_over, resolved, temporary_of

    temporary: Path | None = None
    lock = -1
    try:
        if folder.exists() and not folder.is_dir():
            raise OutputError("is a file, not a directory", where=folder, hint="name another directory")
        target = resolved(folder)
        beside = target if target.exists() else target.parent
        beside.mkdir(parents=True, exist_ok=True)
        temporary, lock = temporary_of(target, beside, folder=True)
        yield temporary
        for file in sorted(temporary.iterdir()):
            if (target / file.name).is_dir():
                raise OutputError("is a directory, not a file", where=folder / file.name, hint="take another folder")
            rename_over(file, target / file.name, None)
        _move_in(temporary, target)
    except OSError as error:
        raise not_written(folder, error) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
            os.close(lock)


def write_text(path: Path, text: str) -> None:
    """Write one text file. Raises: OutputError; ``path`` is then as before."""
    from wattqueue.formats.atomic_write import atomic_text

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


def written(*paths: Path) -> str:
    """Return the sentence that reports a write: ``wrote A and B``, or ``overwrote A`` for what exists already.

    Call it before the write, since afterwards every path exists.
    """
    from wattqueue.formats.atomic_write import is_stream

    fresh = [str(path) for path in paths if not exists(path) or is_stream(path)]
    again = [str(path) for path in paths if str(path) not in fresh]
    groups = [f"{verb} {' and '.join(names)}" for verb, names in (("wrote", fresh), ("overwrote", again)) if names]
    return "; ".join(groups)


@contextmanager
def polars_errors(path: Path) -> Iterator[None]:
    """Turn the errors that polars raises while writing into OutputError.

    polars reports a full disk as an OSError in some writers, and as its own error or a panic in others.
    """
    import polars as pl

    from wattqueue.formats.atomic_write import HINT

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = (str(error).splitlines() or ["unknown"])[0]
        raise OutputError(f"could not be written: {reason}", where=path, hint=HINT) from error


def _move_in(temporary: Path, folder: Path) -> None:
    """Make the temporary folder the new one, or move its files into the one that exists.

    A file that is a symbolic link in the folder is written through, like any other target; where the link
    leads to another file system, a rename is impossible and the file is copied there atomically.
    """
    from wattqueue.formats.atomic_write import atomic_write, new_mode, resolved

    if not folder.exists():
        # Numeric chmod clears setgid, which a folder inherits from a project's folder: keep it.
        temporary.chmod(new_mode(0o777) | (temporary.stat().st_mode & stat.S_ISGID))
        temporary.replace(folder)
        return
    for file in sorted(temporary.iterdir()):
        target = resolved(folder / file.name)
        if target.parent != folder:
            with atomic_write(target) as copy:
                shutil.copyfile(file, copy)
        else:
            file.replace(target)
