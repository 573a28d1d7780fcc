"""Read the TOML file of a process with rights, key by key, each with its type; the standard library alone."""

from __future__ import annotations

import pwd
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from wattqueue.errors import InputError
from wattqueue.live.guard.own_cap import QUANTITY, watts_of


@dataclass
class TableReader:
    """Takes values out of a table."""

    path: Path
    data: dict[str, Any]

    @classmethod
    def of(cls, text: bytes, path: Path) -> Self:
        """Return a reader of a text as the file at ``path`` would hold it. Raises: InputError where it is no TOML."""
        try:
            return cls(path, tomllib.loads(text.decode()))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"is no TOML: {error}", where=path) from error

    def take(self, name: str, kind: type, default: Any = None) -> Any:
        """Take a value out of the table. Raises: InputError where it is missing or of another type."""
        value = self.data.pop(name, default)
        if not isinstance(value, kind) or isinstance(value, bool):
            what = "is missing" if value is None else f"is no {kind.__name__}"
            raise InputError(f"{name} {what}", where=self.path)
        return value

    def file(self, name: str) -> Path:
        """Take a path; a relative one starts at the folder of this file. Raises: InputError."""
        return Path(self.path.resolve().parent / self.take(name, str))

    def cap(self) -> str:
        """Return the cap; that of a file as a whole path."""
        text: str = self.take("cap", str)
        if QUANTITY.fullmatch(text.strip()):
            watts_of(text, "cap")
            return text
        return text if text == "none" else str(self.path.resolve().parent / text)

    def number(self, name: str, default: float | None = None) -> float:
        """Take a number of at least 0. Raises: InputError."""
        value = self.data.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < 1e15:
            raise InputError(f"{name} must be a number of at least 0", where=self.path)
        return float(value)

    def end(self) -> None:
        """Raise InputError for a key that was not taken."""
        if self.data:
            raise InputError(f"unknown key {min(self.data)!r}", where=self.path)


def uid_of(account: str, where: str) -> int:
    """Return the user id of an account. Raises: InputError for one that does not exist."""
    try:
        return pwd.getpwnam(account).pw_uid
    except KeyError as error:
        raise InputError(f"there is no account {account!r}", where=where) from error
