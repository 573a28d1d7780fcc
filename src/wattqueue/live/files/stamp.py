"""Tell one state of a file from another, so that it is read again only when it changed."""

from __future__ import annotations

from pathlib import Path

Stamp = tuple[int, ...]


def stamp_of(path: Path) -> Stamp:
    """Return what changes with a file; empty where there is none.

    Content, permissions, and whether it is a file or a folder: a message about one state must not stand for another.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (error.errno or -1,)
    except ValueError:  # a text that no path can be
        return ()
    return found.st_mode, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
