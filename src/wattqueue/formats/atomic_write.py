"""Atomic writes: write to a temporary file, bring it to disk, then rename it over the target.

Every file that WattQueue writes goes through this module, in the simulator's outputs as well as in live's
state files. A reader of the target sees either the old content or the new one, never a part of it, and a full
disk or a crash leaves the old content in place. The steps of a write are:

1. the target is resolved: a symbolic link is followed, so that the link stays and its target is replaced;
2. a temporary file ``.NAME.XXXX.part`` is created in the target's own folder, because a rename is atomic only
   within one file system, and because the file then inherits the group of a setgid folder;
3. the caller writes it (the block of the ``with`` statement);
4. it gets permissions, owner and group of the file that it replaces, or the permissions that a plain ``open`` would
   have given a new one, and is brought to disk with ``fsync``. Without that, some file systems make the rename
   durable before the content, and a power failure leaves an empty file;
5. it is renamed over the target.

If anything fails before step 5, the temporary file is removed and the target is as it was. A process that is killed
leaves it behind; the next write of the same target removes it. Errors of the
operating system become ``OutputError`` with the target's path; errors of the block pass through unchanged.

A device, a FIFO or ``/dev/stdout`` cannot be renamed over (as root, the rename would replace ``/dev/null``
itself). The temporary file then lies in the system's folder for such files and is copied to the target.

``atomic_text`` does the same for a short text, ``formats.atomic_folder`` for several files of one folder.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from wattqueue.errors import OutputError

HINT = "nothing was changed; check free space and permissions"
"""The hint of a write that the operating system refused."""
PART = ".part"
"""Ending of temporary files and folders."""
_TEMPORARY = re.compile(r"\.(.+)\.[a-z0-9_]{8}\.part")
"""Name of a temporary file or folder: that of its target, and what ``tempfile`` draws."""
_DESCRIPTORS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/")
"""Paths of open files, which are written to even where a regular file stands behind them: it is open elsewhere."""


@contextmanager
def atomic_write(path: Path, *, mode: int | None = None, sync: bool = True) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` when the block ends without an error.

    ``mode`` sets the permissions exactly; by default they are those of the file that is replaced, or what the
    process's umask leaves of 0666. ``sync=False`` leaves out the ``fsync``, for state that is worthless after
    a power failure and is written every few seconds. Missing parent folders are created.

    Raises: OutputError where the folder cannot be written or the disk is full; ``path`` is then as before.
    """
    temporary: Path | None = None
    lock = -1
    try:
        target = resolved(path)
        direct = is_stream(path)
        if not direct:
            target.parent.mkdir(parents=True, exist_ok=True)
        temporary, lock = temporary_of(target, None if direct else target.parent)
        yield temporary
        if direct:
            with temporary.open("rb") as source, path.open("wb") as out:
                shutil.copyfileobj(source, out)
            return
        rename_over(temporary, target, mode, sync=sync)
        temporary.replace(target)
    except OSError as error:
        raise not_written(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
            os.close(lock)


def atomic_text(path: Path, text: str, *, mode: int | None = None, sync: bool = True) -> None:
    """Write a UTF-8 text as ``atomic_write`` does, with its arguments; line ends are written as they are."""
    with atomic_write(path, mode=mode, sync=sync) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def temporary_of(target: Path, place: Path | None, *, folder: bool = False) -> tuple[Path, int]:
    """Return a new temporary file or folder of a target in ``place``, and a descriptor that holds its lock.

    Who holds the lock is writing. What lies there without it was left by a process that was killed, and is removed.
    """
    if place is not None:
        for left in _left_over(place).pop(target.name, ()):
            _remove_unlocked(left)
    while True:
        prefix = f".{target.name}."
        if folder:
            temporary = Path(tempfile.mkdtemp(prefix=prefix, suffix=PART, dir=place))
            lock = os.open(temporary, os.O_RDONLY)
        else:
            lock, name = tempfile.mkstemp(prefix=prefix, suffix=PART, dir=place)
            temporary = Path(name)
        with suppress(OSError):  # a file system without locks: nothing is removed there
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have taken it for a leftover before it was locked.
        if temporary.exists():
            return temporary, lock
        os.close(lock)


@cache
def _left_over(place: Path) -> dict[str, list[Path]]:
    """Return the temporary files and folders in ``place`` by the name of their target.

    A folder is looked at once per process, since a campaign writes thousands of files into one.
    """
    found: dict[str, list[Path]] = {}
    with suppress(OSError):
        for path in place.iterdir():
            match = _TEMPORARY.fullmatch(path.name)
            if match is not None:
                found.setdefault(match[1], []).append(path)
    return found


def _remove_unlocked(left: Path) -> None:
    """Remove a temporary file or folder, unless a process that writes it holds its lock or nobody can tell."""
    with suppress(OSError):
        handle = os.open(left, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink()
        finally:
            os.close(handle)


def not_written(path: Path, error: OSError) -> OutputError:
    """Return the operating system's error as an OutputError with the path and a hint."""
    return OutputError(f"could not be written: {error.strerror or error}", where=path, hint=HINT)


def resolved(path: Path) -> Path:
    """The path behind symbolic links, also where the last one points to nothing yet.

    Raises: OutputError for a directory in place of a file's parent, and for links that lead in a circle.
    """
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OutputError("is a symbolic link that leads to itself", where=path, hint="name another file")
    return target


def is_stream(path: Path) -> bool:
    """Whether a path is a device, FIFO or the like, which is written to and never replaced.

    Raises: OutputError for a directory.
    """
    if path.is_dir():
        raise OutputError("is a directory, not a file", where=path, hint="name a file")
    return path.exists() and (str(path).startswith(_DESCRIPTORS) or not path.is_file())


def rename_over(file: Path, target: Path, mode: int | None, *, sync: bool = True) -> None:
    """Give a finished file its permissions, owner and group, and bring it to disk.

    The permissions are ``mode``, else those of the file that it replaces, else those of a new file. The owner of the
    replaced file is kept if root writes it, its group where the user belongs to it; else they stay what they are.
    """
    old = target.stat() if target.is_file() else None
    if old is not None and (file.stat().st_uid, file.stat().st_gid) != (old.st_uid, old.st_gid):
        for owner in (old.st_uid, -1):
            with suppress(OSError):  # not root, or an account that this container does not know
                os.chown(file, owner, old.st_gid)
                break
    if mode is None:
        mode = stat.S_IMODE(old.st_mode) if old is not None else new_mode(0o666)
    file.chmod(mode)
    if sync:
        with file.open("rb") as done:
            os.fsync(done.fileno())


def new_mode(most: int) -> int:
    """The permissions that a new file or folder gets: ``most`` without the process's umask.

    Setting the umask is the portable way to read it, but another thread that creates a file meanwhile would
    do so without any mask. Linux shows it in /proc, which has no such race.
    """
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("Umask:"):
                return most & ~int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return most & ~mask
