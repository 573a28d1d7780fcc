"""The folder of compiled kernels: where it is, when it is another one, when an old one is removed.

The folder's name carries the mode (``mode.py``) and a hash of numba's version and of all kernel sources, because
numba's own cache does not notice when a *called* kernel changes: any change starts with an empty folder.
Folders of other versions that nobody used for a month are removed. ``WATTQUEUE_CACHE_DIR`` names another place; a
place that cannot be written is reported by the command line (``CACHE_PROBLEM``), since compiling again in every run
takes some 12 seconds or more.

This module does not import numba, so that a program can look here before it loads the compiler.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from wattqueue.kernels.library import sources_digest
from wattqueue.kernels.mode import COMPILES, MODE

_STALE_S = 30 * 86400.0
"""Age at which the cache of another version is removed."""


def _identity() -> str:
    """Return what identifies the compiled code: the mode, and a hash of numba's version and of every kernel source."""
    from importlib.metadata import version

    digest = hashlib.sha256(f"{version('numba')} {sources_digest()}".encode())
    return f"{MODE}-{digest.hexdigest()[:16]}"


def _cache_root() -> Path:
    """Return the folder under which compiled kernels are kept: WATTQUEUE_CACHE_DIR, else the user's cache folder."""
    named = os.environ.get("WATTQUEUE_CACHE_DIR")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or (Path.home() / ".cache")
    return Path(home) / "wattqueue"


def _cache_dir() -> tuple[Path, str]:
    """Return the folder for compiled kernels of exactly these sources, and why it is not the usual one (or empty).

    A usual folder that cannot be written is still read if it holds compiled kernels (a site that warmed it for all
    users). Otherwise a folder of the user's own in the temporary directory is used again and again; else one that this
    process removes. Machine code is loaded from the folder, so in each case nobody but this user and root may be able
    to change what it holds (``_is_trusted``).
    """
    folder = _cache_root() / f"kernels-{_identity()}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # What a site names may be meant for other users to read; the user's own cache is nobody else's.
        folder.mkdir(mode=0o755 if os.environ.get("WATTQUEUE_CACHE_DIR") else 0o700, exist_ok=True)
        if not _is_trusted(folder):
            why = "others than this user can write there"
        elif os.access(folder, os.W_OK | os.X_OK):
            _drop_stale(folder)
            return folder, ""
        else:
            why = "permission denied"
    except OSError as error:
        why = (error.strerror or str(error)).lower()
    if _is_trusted(folder) and _holds_kernels(folder):
        return folder, ""
    own = Path(tempfile.gettempdir()) / f"wattqueue-kernels-{os.getuid()}-{_identity()}"
    why = f"cannot keep compiled kernels in {folder.parent}: {why}"
    with suppress(OSError):
        own.mkdir(mode=0o700, exist_ok=True)
    if _is_trusted(own) and os.access(own, os.W_OK | os.X_OK):
        return own, f"{why}; using {own}"
    own = Path(tempfile.mkdtemp(prefix="wattqueue-kernels-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own, f"{why}; they are compiled again in each run, which takes 12 seconds or more"


def _is_trusted(folder: Path) -> bool:
    """Return whether only this user and root can change a folder and the folders and files in it.

    A folder that is closed to others protects what it holds, whatever the modes there (a umask of 002). False for what
    is missing, or is a link.
    """
    try:
        top = folder.lstat()
        if not stat.S_ISDIR(top.st_mode):
            return False
        if top.st_uid == os.getuid() and not top.st_mode & 0o077:
            return True
        return all(
            found.st_uid in {os.getuid(), 0} and not found.st_mode & 0o022
            for found in (path.lstat() for path in (folder, *folder.rglob("*")))
        )
    except OSError:
        return False


def _holds_kernels(folder: Path) -> bool:
    """Return whether a cache folder has any compiled kernel; False where it cannot be read."""
    try:
        return any(folder.rglob("*.nbi"))
    except OSError:
        return False


def _drop_stale(current: Path) -> None:
    """Remove caches of other versions that have not been used for a month. Using a cache sets its time to now."""
    os.utime(current)
    for other in current.parent.glob("kernels-*"):
        if other != current and time.time() - other.stat().st_mtime > _STALE_S:
            shutil.rmtree(other, ignore_errors=True)


CACHE_DIR, CACHE_PROBLEM = _cache_dir() if COMPILES else (_cache_root(), "")
"""Where compiled kernels are kept, and what is wrong with the usual place: the command line prints it, with the hint
to set WATTQUEUE_CACHE_DIR."""


def compiled_before() -> bool:
    """Return whether the cache already holds compiled kernels, so that a first run can print what it waits for."""
    return not COMPILES or _holds_kernels(CACHE_DIR)


def watch_compiler(tell: Callable[[int, int], None]) -> Callable[[], None]:
    """Have ``tell`` called with (kernels compiled, kernels expected) after each one; return what ends that.

    Imports numba.
    """
    from wattqueue.kernels._numba.compiling import watch

    return watch(tell)
