"""One description of an option: a field of a dataclass.

Flags of the command line (``verbs``), arguments of the Python API (``api/inputs.py``) and their pages of reference are
made from these fields, so that one thing has one name, one default and one text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any

MOST_WORKERS = 10_000
"""Limit of the number of processes: more is a typing error."""


@dataclass(frozen=True, slots=True)
class Option:
    """What a field states beside its type and default.

    Attributes:
        help: One line. A default that depends on others stands in square brackets at its end.
        kind: Type on the command line.
        unit: Unit of a number, or of a text's number.
        flags: Flags other than the one of the name.
        metavar: What the help calls the value.
        least: Least number.
        most: Greatest number.
        many: Whether it may be given several times.
        also: What Python takes besides, such as ``a Machine``.
        positional: Whether it is an argument, not a flag, although it has a default.
    """

    help: str
    kind: Any = str
    unit: str = ""
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    least: float | None = None
    most: float | None = None
    many: bool = False
    also: str = ""
    positional: bool = False

    @property
    def sentence(self) -> str:
        """Return the text of the reference: help, unit, and what Python takes besides."""
        unit = f", in {self.unit}" if self.unit else ""
        also = f" Or {self.also}." if self.also else ""
        return f"{self.help.removesuffix('.')}{unit}.{also}" if unit else self.help + also


def about(text: str, **more: Any) -> dict[str, Option]:
    """Return the metadata of a field that must be given: ``field(metadata=about("A trace."))``."""
    return {"option": Option(text, **more)}


def option(default: Any, text: str, **more: Any) -> Any:
    """Return a field with a default."""
    return field(default=default, metadata=about(text, **more))


def workers_option(text: str = "Number of processes. [one per core]") -> Any:
    """Return the field of the number of processes."""
    return option(None, text, kind=int, least=1, most=MOST_WORKERS)


def options_of(described: Any) -> Iterator[tuple[Field[Any], Option]]:
    """Yield the fields of a dataclass of options with their descriptions, in their order."""
    for one in fields(described):
        yield one, one.metadata["option"]


def is_required(one: Field[Any]) -> bool:
    """Return whether a field has no default."""
    return one.default is MISSING


def is_argument(one: Field[Any], what: Option) -> bool:
    """Return whether a field is an argument of the command line, not a flag."""
    return what.positional or (is_required(one) and not what.flags)
