"""Say what an error of a database was, and what to do about one of it or of the operating system, by its code.

A hint that does not fit sends its reader the wrong way: free space has nothing to do with a missing column.
"""

from __future__ import annotations

import errno
import sqlite3

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

SPACE = "check free space"
PERMISSIONS = "check permissions"
BUSY = "another process holds the database: try again, or end that process"
DAMAGED = "the file is damaged or no database: put a copy in its place"
DEVICE = "check the disk and its file system"
SERVER = "check that the server runs and takes connections"
TABLES = (
    "its tables are not those that this version of WattQueue expects: was it written by another version, or by hand?"
)
UNKNOWN = "the server's or the system's log may say more"

_BY_NUMBER = {
    errno.ENOSPC: SPACE,
    errno.EDQUOT: SPACE,
    errno.EFBIG: SPACE,
    errno.EACCES: PERMISSIONS,
    errno.EPERM: PERMISSIONS,
    errno.EROFS: "the file system is read-only",
    errno.EIO: DEVICE,
}
_BY_SQLITE = {
    sqlite3.SQLITE_FULL: SPACE,
    sqlite3.SQLITE_READONLY: PERMISSIONS,
    sqlite3.SQLITE_PERM: PERMISSIONS,
    sqlite3.SQLITE_AUTH: PERMISSIONS,
    sqlite3.SQLITE_CANTOPEN: f"{PERMISSIONS} of the file and its folder",
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_IOERR: DEVICE,
    sqlite3.SQLITE_ERROR: TABLES,
    sqlite3.SQLITE_SCHEMA: TABLES,
}
"""By primary result code: the low eight bits of the extended one."""
_BY_STATE = {
    "08": SERVER,  # connection exception
    "28": "check user and password",
    "40": "another process changed the same rows: try again",
    "42": TABLES,  # undefined table or column
    "53": SPACE,
    "57": SERVER,  # shut down by its administrator
    "58": DEVICE,
}
"""By the class of an SQLSTATE: its first two characters."""
_BY_MARIADB = {
    1021: SPACE,
    1114: SPACE,
    1044: PERMISSIONS,
    1142: PERMISSIONS,
    1143: PERMISSIONS,
    1045: "check user and password",
    1054: TABLES,
    1146: TABLES,
    1205: BUSY,
    1213: BUSY,
}
_BY_STATE_WHOLE = {"42501": PERMISSIONS, "53300": "the server has too many connections: try again", "55P03": BUSY}


def cause(error: SQLAlchemyError) -> str:
    """Return what the database itself reported, in one line and without the statement."""
    return " ".join(str(getattr(error, "orig", None) or error).split())[:200]


def hint_of(error: BaseException) -> str:
    """Return what to do about an error: of SQLAlchemy, of a driver, or of the operating system."""
    origin = (error.orig if isinstance(error, DBAPIError) else None) or error
    if isinstance(origin, OSError):
        return _BY_NUMBER.get(origin.errno or 0, UNKNOWN)
    facts = vars(origin)  # the drivers of servers are not imported for this: they may be missing
    code = facts.get("sqlite_errorcode")
    if isinstance(origin, sqlite3.Error):
        return UNKNOWN if code is None else _BY_SQLITE.get(code & 0xFF, UNKNOWN)
    state = type(origin).__dict__.get("sqlstate")  # psycopg has a class for each
    if state is not None:
        return _BY_STATE_WHOLE.get(state) or _BY_STATE.get(state[:2], UNKNOWN)
    number = next(iter(origin.args), None)
    # a connection that could not be made has neither
    return _BY_MARIADB.get(number, SERVER) if isinstance(number, int) else SERVER
