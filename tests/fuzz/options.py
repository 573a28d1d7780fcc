"""Every command of the command line with its own arguments and options, as typer registered them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal, get_args, get_origin

import typer.main

from wattqueue.cli import _app

Words = tuple[str, ...]


@cache
def commands() -> dict[Words, tuple[Any, ...]]:
    """The parameters of each command that does something, by the words that name it: verbs, and groups that run."""
    return {words: tuple(command.params) for words, command in _found().items()}


def callback_of(words: Words) -> Callable[..., None]:
    """The function behind a command."""
    found: Callable[..., None] = _found()[words].callback
    return found


@cache
def _found() -> dict[Words, Any]:
    """Each command that does something, by the words that name it."""
    found: dict[Words, Any] = {}
    for verb in _app.verbs():
        root: Any = typer.main.get_command(_app.build([verb]))
        found.update(_below((verb,), root.commands[verb]))
    return found


def _below(words: Words, command: Any) -> Iterator[tuple[Words, Any]]:
    """A command, or those of a group."""
    inner = getattr(command, "commands", None)
    if inner is None or command.invoke_without_command:
        yield words, command
    for name, one in (inner or {}).items():
        yield from _below((*words, name), one)


def command_of(words: list[str] | Words) -> Words:
    """The command that some words begin with, the longest; empty where there is none."""
    known = [name for name in commands() if tuple(words[: len(name)]) == name]
    return max(known, key=len, default=())


def options(words: Words) -> dict[str, Any]:
    """The options of a command by their first name, flags that switch off by that name."""
    found = {}
    for parameter in commands()[words]:
        names = [name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("-")]
        if names:
            # of --report/--no-report the default is not worth a line
            found[parameter.secondary_opts[0] if parameter.secondary_opts and parameter.default else names[0]] = (
                parameter
            )
    return found


def names(parameter: Any) -> list[str]:
    """All names of an option."""
    return [*parameter.opts, *parameter.secondary_opts]


def value_of(parameter: Any, text: str | None) -> list[str]:
    """Words that follow an option: none for a flag, a number or choice of its type, else the text that is given.

    Raises: LookupError for an option that takes a text where none is given.
    """
    if getattr(parameter, "is_flag", False):
        return []
    kind = parameter.type_descriptor.annotation
    kind = next((one for one in get_args(kind) if one is not type(None)), kind) if _is_union(kind) else kind
    if get_origin(kind) is list:
        (kind,) = get_args(kind)
    if get_origin(kind) is Literal:
        return [str(get_args(kind)[-1])]
    if kind in (int, float):
        return [str(parameter.default if parameter.default is not None else max(parameter.min or 1, 1))]
    if text is None:
        raise LookupError(f"{names(parameter)[0]} needs a value in tests/fuzz/templates.py (VALUES)")
    return [text]


def _is_union(kind: Any) -> bool:
    return type(None) in get_args(kind)
