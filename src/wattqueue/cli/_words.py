"""Read the words of a command: what is refused everywhere, and plain calls without typer.

typer with what it needs is half of the modules that a short run would import, and a third of its start-up. A verb whose
parameters are options alone (``verbs.verb_of``) is therefore called here where each word is understood. Everything
else goes to typer: help, a misspelt flag, a value out of range, which it explains.
"""

from __future__ import annotations

import importlib
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field
from pathlib import Path
from typing import Any, get_args

from wattqueue.errors import InputError
from wattqueue.options import Option, is_argument, is_required, options_of
from wattqueue.verbs import OptionsVerb


class _NotPlainError(Exception):
    """Words that typer has to explain."""


def plain_call(words: Sequence[str]) -> Callable[[], None] | None:
    """Return what runs the command; None where typer has to read it.

    Raises: InputError for words that no verb takes.
    """
    from wattqueue.cli._verbs import VERBS

    refuse_empty(words)
    refuse_foreign_digits(words)
    # A group of commands imports typer anyway, and other packages may be absent.
    if not words or words[0] not in VERBS or not VERBS[words[0]][0].startswith("wattqueue.cli."):
        return None
    verb = vars(importlib.import_module(VERBS[words[0]][0])).get("run")
    if not isinstance(verb, OptionsVerb) or not verb.takes_options_alone:
        return None
    try:
        given = verb.options(**_values(words[1:], list(options_of(verb.options))))
    except _NotPlainError:
        return None
    return lambda: verb.perform(given)


def _values(words: Sequence[str], described: list[tuple[Field[Any], Option]]) -> dict[str, Any]:
    """Return the values of fields by name. Raises: _NotPlainError."""
    arguments = [each for each in described if is_argument(*each)]
    flags = {flag: (*each, value) for each in described if not is_argument(*each) for flag, value in _flags(*each)}
    found: dict[str, Any] = {}
    left = iter(words)
    for word in left:
        flag, equals, text = word.partition("=")
        if not word.startswith("-"):
            if not arguments:
                raise _NotPlainError
            one, what = arguments.pop(0)
            found[one.name] = _value(what, word)
            continue
        if flag not in flags:
            raise _NotPlainError
        one, what, value = flags[flag]
        if value is not None:
            if equals:
                raise _NotPlainError
            found[one.name] = value
            continue
        text = text if equals and flag.startswith("--") else next(left, "-")
        if text.startswith("-"):
            raise _NotPlainError
        found[one.name] = [*found.get(one.name, []), _value(what, text)] if what.many else _value(what, text)
    if any(is_required(one) and one.name not in found for one, _ in described):
        raise _NotPlainError
    return found


def _flags(one: Field[Any], what: Option) -> Iterator[tuple[str, bool | None]]:
    """Yield the flags of a field with what they set; None for the value that follows."""
    name = one.name.replace("_", "-")
    if what.kind is not bool:
        yield from ((flag, None) for flag in what.flags or (f"--{name}",))
        return
    yield from ((flag, True) for flag in what.flags or (f"--{name}",))
    if one.default and not what.flags:
        yield f"--no-{name}", False


def _value(what: Option, text: str) -> Any:
    """Return a value of an option's type. Raises: _NotPlainError for text that is none, and beyond its limits."""
    if what.kind in (str, Path):
        return what.kind(text)
    if what.kind in (int, float):
        try:
            number = what.kind(text)
        except ValueError:
            raise _NotPlainError from None
        if (what.least is None or number >= what.least) and (what.most is None or number <= what.most):
            return number
    elif text in get_args(what.kind):
        return text
    raise _NotPlainError


def refuse_empty(arguments: Sequence[str]) -> None:
    """Refuse an argument or option value that is empty or blank: mostly an unset shell variable.

    ``--cap "$CAP"`` would otherwise run without a cap, and an empty path is the current folder to Python.

    Raises: InputError with the option, or the position of the argument, in ``where``.
    """
    for i, text in enumerate(arguments):
        # Both forms occur: --cap= (one argument) and --cap "" (two).
        option, equals, value = text.partition("=")
        if text.startswith("-") and equals and not value.strip():
            where = option
        elif not text.strip():
            before = arguments[i - 1] if i else ""
            where = before if before.startswith("-") and "=" not in before else f"argument {i + 1}"
        else:
            continue
        raise InputError("is empty", where=where, hint="leave it out, or set the variable that it is taken from")


def refuse_foreign_digits(arguments: Sequence[str]) -> None:
    """Refuse a number in digits of another script: Python reads them, and nothing else that gets the number does.

    Raises: InputError with the argument.
    """
    for text in arguments:
        value = text.partition("=")[2] if text.startswith("-") and "=" in text else text
        kinds = {unicodedata.category(letter)[0] for letter in value}
        foreign = any(unicodedata.category(letter)[0] == "N" for letter in value if not letter.isascii())
        if foreign and "L" not in kinds:
            raise InputError("is not written in the digits 0 to 9", where=text, hint="a file of that name is ./NAME")
