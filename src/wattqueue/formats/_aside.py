"""Write a file or a folder aside, then rename it: a reader never meets half of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wattqueue.errors import OutputError

MEND = "nothing was changed; see to space and rights"


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder that becomes ``path`` once the block ends well.

    Raises: OutputError where the folder cannot be written or the disk is full; ``path`` is then as before.
    """
    temporary: Path | None = None
    try:
        if path.is_dir():
            raise OutputError("is a directory, not a file", where=path, mend="name a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        _settle(temporary, 0o666)
        temporary.replace(path)
    except OSError as error:
        raise not_written(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextmanager
def aside_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``folder`` once the block ends well.

    A folder that has files already keeps those of other names: ours move in, all of them complete
    and on disk before the first one moves, so that a full disk leaves the folder as it was.

    Raises: OutputError where the folder cannot be written or the disk is full.
    """
    temporary: Path | None = None
    try:
        if folder.exists() and not folder.is_dir():
            raise OutputError("is a file, not a directory", where=folder, mend="name another directory")
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = folder if folder.is_mount() else folder.parent  # a rename stays within one file system
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=beside))
        yield temporary
        for file in sorted(temporary.iterdir()):
            if (folder / file.name).is_dir():
                raise OutputError("is a directory, not a file", where=folder / file.name, mend="take another folder")
            _settle(file, 0o666)
        _move_in(temporary, folder)
    except OSError as error:
        raise not_written(folder, error) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _move_in(temporary: Path, folder: Path) -> None:
    """One rename where the folder is new or empty, else (and where a file system is mounted there) one a file."""
    if not folder.is_mount() and (not folder.exists() or not any(folder.iterdir())):
        _grant(temporary, 0o777)
        temporary.replace(folder)
        return
    for file in sorted(temporary.iterdir()):
        file.replace(folder / file.name)


@contextmanager
def polars_errors(path: Path) -> Iterator[None]:
    """What polars says of a full disk, where it does not say it as the operating system does, as our error."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = (str(error).splitlines() or ["unknown"])[0]
        raise OutputError(f"could not be written: {reason}", where=path, mend=MEND) from error


def not_written(path: Path, error: OSError) -> OutputError:
    """The error of the operating system as one of ours."""
    return OutputError(
        f"could not be written: {error.strerror or error}",
        where=path,
        mend=MEND,
    )


def _settle(file: Path, mode: int) -> None:
    """Bring a file to disk with the rights that a plain ``open`` would have given it."""
    _grant(file, mode)
    with file.open("rb") as done:
        os.fsync(done.fileno())


def _grant(path: Path, mode: int) -> None:
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(mode & ~mask)
