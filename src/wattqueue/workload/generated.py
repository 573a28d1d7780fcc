"""Workload generators by name: ``marconi:days=7,load=0.9`` in place of a trace file.

The part before the colon is a module of ``wattqueue.workload``; the options are the keyword parameters of its
``generate``. A call is parsed and bounded here before anything is generated, so that ``campaign`` can refuse a wrong
call before any run starts, and so that no figure reaches numpy that would overflow an array size or fill the memory.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from wattqueue.errors import InputError, one_of
from wattqueue.model.jobs import Jobs
from wattqueue.model.plain_numbers import number_of

_GENERATORS = ("marconi", "fugaku", "lightesp")


def is_generated(workload: str) -> bool:
    """Return whether a workload is a generator's call rather than a file."""
    return workload.partition(":")[0] in _GENERATORS


def refuse_unknown(workload: str) -> None:
    """Refuse a call of an unknown generator. Other workloads pass: they are files.

    Raises: InputError naming the generators that exist, where ``workload`` has the form ``name:key=value``.
    """
    name, _, options = workload.partition(":")
    if "=" in options and name.isidentifier():
        raise InputError(
            f"no generator {name!r}", where=workload, hint=f"{one_of(name, _GENERATORS)}, or a file's name"
        )


def generate(call: str, rng: np.random.Generator) -> Jobs:
    """Generate the workload of ``name:key=value,...``.

    Args:
        call: Generator and options, such as ``marconi:days=7,load=0.9`` or ``fugaku:jobs=1e6``.
        rng: Source of all random draws.

    Raises: InputError with the call as its place, for an unknown or doubled option, a value that is no number or not a
    whole one where the option counts something, or options out of range.
    """
    module, options = _parsed(call)
    with _at(call):
        jobs: Jobs = module.generate(rng, **options)
        return jobs


def check_call(call: str) -> None:
    """Check a call without generating anything. Raises: InputError as ``generate``."""
    module, options = _parsed(call)
    with _at(call):
        module.check(**options)


@contextmanager
def _at(call: str) -> Iterator[None]:
    """Give errors of a generator their place: generators are functions and do not see the text of the call."""
    try:
        yield
    except InputError as error:
        raise InputError(error.what, where=error.where or call, hint=error.hint) from error


def _parsed(call: str) -> tuple[Any, dict[str, float | int]]:
    """Return the generator's module and the options of a call. Raises: InputError."""
    name, _, rest = call.partition(":")
    module: Any = importlib.import_module(f"wattqueue.workload.{name}")
    known = [key for key in inspect.signature(module.generate).parameters if key != "rng"]
    options: dict[str, float | int] = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        key = key.strip()
        if key not in known:
            raise InputError(f"unknown option {key!r}", where=call, hint=one_of(key, known))
        if key in options:
            raise InputError(f"option {key} occurs twice", where=call, hint="write it once")
        options[key] = _number(key, value.strip(), call)
    return module, options


def _number(key: str, text: str, call: str) -> float | int:
    """Return an option's value: an int for counts (``1e6`` is one), else a finite float.

    Args:
        key: Name of the option.
        text: Its value as written.
        call: The whole call, for errors.

    Raises: InputError for what is no finite number, no whole number where one is needed, or out of range.
    """
    from wattqueue.workload.limits import WHOLE, require

    value = number_of(text)
    if not math.isfinite(value):
        raise InputError(f"{key} = {text!r} is not a finite number", where=call, hint="write key=number")
    if key not in WHOLE:
        return value
    if value != round(value):
        raise InputError(f"{key} = {text} is not a whole number", where=call, hint="it counts something")
    with _at(call):
        require(**{key: value})  # before int(): an int of 300 digits helps nobody
    return int(value)
