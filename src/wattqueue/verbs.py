"""Verbs made from options: each field of a dataclass is an argument or a flag (``wattqueue.options``)."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate, TypeVar

import typer

from wattqueue.options import Option, is_required, option, options_of

O = TypeVar("O")  # noqa: E741


@dataclass(frozen=True, kw_only=True)
class Printed:
    """How a result is printed."""

    as_json: bool = option(False, "Print the result as JSON.", kind=bool, flags=("--json",))
    quiet: bool = option(False, "Print no result: only files are written.", kind=bool, flags=("--quiet", "-q"))

    def show(self, data: Callable[[], Mapping[str, Any] | str], text: Callable[[], Iterable[str] | None]) -> None:
        """Print a result: ``data`` returns it for JSON, or as JSON; ``text`` prints it for people, or returns lines."""
        if self.as_json:
            found = data()
            typer.echo(found.rstrip("\n") if isinstance(found, str) else json.dumps(found, allow_nan=False, indent=1))
        else:
            self.say(() if self.quiet else text() or ())

    def say(self, lines: Iterable[str]) -> None:
        """Print sentences for people."""
        if not (self.as_json or self.quiet):
            for line in lines:
                typer.echo(line)


OUT = ("--out", "-o")
"""Flags of what is written."""


def out_field(text: str, default: Any = None) -> Any:
    """Return the field of what is written: ``--out`` or ``-o``."""
    return option(default, text, kind=Path, flags=OUT)


def report_field() -> Any:
    """Return the field that says whether a run's page is written."""
    return option(True, "With --out: write report.html too.", kind=bool)


def verb_of(options: Callable[..., O]) -> Callable[[Callable[Concatenate[O, ...], None]], Callable[..., None]]:
    """Make a verb of a function that takes options, and after these maybe parameters of its own as typer reads them."""

    def decorate(function: Callable[Concatenate[O, ...], None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        parameters = [*own, *(_parameter(*each) for each in options_of(options))]
        shown = sorted(parameters, key=lambda one: (one.kind, one.default is not one.empty))
        signature = inspect.Signature(shown)

        @functools.wraps(function)
        def run(*given: Any, **named: Any) -> None:
            stated: Any = signature.bind(*given, **named).arguments
            stated = {name: value for name, value in stated.items() if value is not None}  # typer's own defaults
            mine: Any = {one.name: stated.pop(one.name) for one in own if one.name in stated}
            function(options(**stated), **mine)

        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in shown}
        return run

    return decorate


def _parameter(one: Field[Any], what: Option) -> inspect.Parameter:
    """Return a field as typer reads it: an argument if it must be given and has no flag of its own, or says so."""
    required = is_required(one)
    kind = list[what.kind] if what.many else what.kind  # type: ignore[name-defined]
    default = inspect.Parameter.empty if required else None if what.many else one.default
    if default is None:
        kind = kind | None
    flag = f"--{one.name.replace('_', '-')}"
    flags = what.flags or ((flag,) if what.kind is bool and not one.default else ())
    metavar = what.metavar or (f"<{what.kind.__name__}, {what.unit}>" if what.unit else None)
    more: dict[str, Any] = {"help": what.help, "metavar": metavar, "min": what.least, "max": what.most}
    argument = what.positional or (required and not what.flags)
    info = typer.Argument(**more) if argument else typer.Option(*flags, **more)
    place = inspect.Parameter.KEYWORD_ONLY if one.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(one.name, place, default=default, annotation=Annotated[kind, info])
