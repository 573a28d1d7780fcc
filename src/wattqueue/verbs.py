"""Verbs made from options: each field of a dataclass is an argument or a flag (``wattqueue.options``)."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Generic, TypeVar

from wattqueue.options import Option, is_argument, is_required, option, options_of

if TYPE_CHECKING:
    import inspect

O = TypeVar("O")  # noqa: E741


@dataclass(frozen=True, kw_only=True)
class Printed:
    """How a result is printed."""

    as_json: bool = option(False, "Print the result as JSON.", kind=bool, flags=("--json",))
    quiet: bool = option(False, "Print no result: only files are written.", kind=bool, flags=("--quiet", "-q"))

    def show(self, data: Callable[[], Mapping[str, Any] | str], text: Callable[[], Iterable[str] | None]) -> None:
        """Print a result: ``data`` returns it for JSON, or as JSON; ``text`` prints it for people, or returns lines."""
        self._stop_working()
        if self.as_json:
            import json

            found = data()
            print(found.rstrip("\n") if isinstance(found, str) else json.dumps(found, allow_nan=False, indent=1))
        else:
            self.say(() if self.quiet else text() or ())

    def say(self, lines: Iterable[str]) -> None:
        """Print sentences for people."""
        if not (self.as_json or self.quiet):
            self._stop_working()
            for line in lines:
                print(line)

    def _stop_working(self) -> None:
        """Erase the bar that says that a verb is at work."""
        if sys.stderr.isatty():
            from wattqueue.terminal import stop_working

            stop_working()


OUT = ("--out", "-o")
"""Flags of what is written."""


def out_field(text: str, default: Any = None) -> Any:
    """Return the field of what is written: ``--out`` or ``-o``."""
    return option(default, text, kind=Path, flags=OUT)


def report_field() -> Any:
    """Return the field that says whether a run's page is written."""
    return option(True, "With --out: write report.html too.", kind=bool)


def verb_of(options: Callable[..., O]) -> Callable[[Callable[Concatenate[O, ...], None]], OptionsVerb[O]]:
    """Make a verb of a function that takes options, and after these maybe parameters of its own as typer reads them."""
    return lambda function: OptionsVerb(function, options)


class OptionsVerb(Generic[O]):
    """A function of options as the command line calls it.

    What typer reads of it, ``__signature__`` and ``__annotations__``, is made when it is asked for: most calls of the
    program get by without typer (``cli/_words.py``).
    """

    def __init__(self, function: Callable[Concatenate[O, ...], None], options: Callable[..., O]) -> None:
        """``options`` is a dataclass whose fields have descriptions."""
        functools.update_wrapper(self, function, _COPIED)
        self.function, self.options = function, options

    @property
    def takes_options_alone(self) -> bool:
        """Whether the function has no parameters of its own."""
        return self.function.__code__.co_argcount + self.function.__code__.co_kwonlyargcount == 1

    def __call__(self, *given: Any, **named: Any) -> None:
        """Run the verb with what typer has read."""
        stated: Any = self.__signature__.bind(*given, **named).arguments
        stated = {name: value for name, value in stated.items() if value is not None}  # typer's own defaults
        mine: Any = {one.name: stated.pop(one.name) for one in self._own if one.name in stated}
        self.perform(self.options(**stated), **mine)

    def perform(self, options: O, **mine: Any) -> None:
        """Run the verb, and show on a terminal that it is at work until it prints or shows more."""
        if not sys.stderr.isatty():
            self.function(options, **mine)
            return
        from wattqueue.terminal import working

        with working(quiet=isinstance(options, Printed) and options.quiet):
            self.function(options, **mine)

    @cached_property
    def _own(self) -> list[inspect.Parameter]:
        """The parameters behind the options."""
        import inspect

        return list(inspect.signature(self.function, eval_str=True).parameters.values())[1:]

    @cached_property
    def __signature__(self) -> inspect.Signature:
        """Options and own parameters, those first that must be given."""
        import inspect

        parameters = [*self._own, *(_parameter(*each) for each in options_of(self.options))]
        return inspect.Signature(sorted(parameters, key=lambda one: (one.kind, one.default is not one.empty)))

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        """Types of the parameters, by name."""
        return {one.name: one.annotation for one in self.__signature__.parameters.values()}


_COPIED = ("__module__", "__name__", "__qualname__", "__doc__")


def _parameter(one: Field[Any], what: Option) -> inspect.Parameter:
    """Return a field as typer reads it: an argument if it must be given and has no flag of its own, or says so."""
    import inspect

    import typer

    required = is_required(one)
    kind = list[what.kind] if what.many else what.kind  # type: ignore[name-defined]
    default = inspect.Parameter.empty if required else None if what.many else one.default
    if default is None:
        kind = kind | None
    flags = what.flags or ((f"--{one.name.replace('_', '-')}",) if what.kind is bool and not one.default else ())
    metavar = what.metavar or (f"<{what.kind.__name__}, {what.unit}>" if what.unit else None)
    more: dict[str, Any] = {"help": what.help, "metavar": metavar, "min": what.least, "max": what.most}
    info = typer.Argument(**more) if is_argument(one, what) else typer.Option(*flags, **more)
    place = inspect.Parameter.KEYWORD_ONLY if one.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(one.name, place, default=default, annotation=Annotated[kind, info])
