"""Types of columns that mean the same in SQLite, PostgreSQL and MariaDB.

MariaDB needs a length for texts in keys, compares texts without regard to case and trailing spaces unless it is given
a collation, and takes a plain FLOAT for one of 32 bits. The other databases are not changed by any of this.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Float, String, Text
from sqlalchemy.dialects import mysql

_EXACT: dict[str, Any] = {"charset": "utf8mb4", "collation": "utf8mb4_nopad_bin"}
KEY_LENGTH = 255
"""Characters of a text in a key in MariaDB: two of them must fit into the 3,072 bytes of an index."""


def number() -> Float[Any]:
    """Return a float of 64 bits."""
    return Float().with_variant(mysql.DOUBLE(asdecimal=False), "mariadb")


def text() -> Text:
    """Return a text of any length that is no part of a key."""
    return Text().with_variant(mysql.TEXT(**_EXACT), "mariadb")


def key_text() -> Text:
    """Return a text in a primary key or an index; in MariaDB of at most ``KEY_LENGTH`` characters."""
    return Text().with_variant(mysql.VARCHAR(KEY_LENGTH, **_EXACT), "mariadb")


def word(length: int) -> String:
    """Return a text of at most ``length`` characters, in a key or not."""
    return String(length).with_variant(mysql.VARCHAR(length, **_EXACT), "mariadb")
