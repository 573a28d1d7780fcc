"""An estimator as one text, as options of the command line have it: ``history-mean+margin:factor=1.05``.

Each part is ``NAME`` or ``file.py:Class``, followed by ``:option=value``; what follows a plus corrects what is before.
"""

from __future__ import annotations

import ast
from typing import Any

from wattqueue.errors import PolicyError


def estimator_value(text: str) -> Any:
    """Return the value that a row has for a text: a name, a table with options, or a list of a base and corrections.

    Raises: PolicyError for an option that is none, or occurs twice.
    """
    parts = [(name, options) for name, options in map(split_part, text.split("+"))]
    values = [{"part": name, **options} if options else name for name, options in parts]
    return values if len(values) > 1 else values[0]


def split_part(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a part, and the options that its text states. Raises: PolicyError as ``estimator_value``."""
    words = text.split(":")
    given = [_option(word, text) for word in words if "=" in word]
    options = dict(given)
    if len(options) < len(given):
        raise PolicyError("an option occurs twice", where=text, hint="write each option once")
    return ":".join(word for word in words if "=" not in word), options


def _option(word: str, where: str) -> tuple[str, Any]:
    """Return the name and value of ``option=value``. Raises: PolicyError."""
    key, _, value = word.partition("=")
    if not key.isidentifier():
        raise PolicyError(f"{word!r} is not an option", where=where, hint="write NAME:option=value")
    if value in ("inf", "nan"):  # no literals of Python
        return key, float(value)
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value
