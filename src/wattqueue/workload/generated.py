"""Generators by name: ``marconi:days=7,load=0.9`` in place of a trace file."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs

_SPEAKS = ("marconi", "fugaku")


def is_generated(workload: str) -> bool:
    """Whether a workload is a generator's call rather than a file."""
    return workload.partition(":")[0] in _SPEAKS


def refuse_unknown(workload: str) -> None:
    """Say which generators there are, where a workload looks like a call. Raises: InputError."""
    name, _, options = workload.partition(":")
    if "=" in options and name.isidentifier():
        raise InputError(
            f"no generator {name!r}", where=workload, mend=f"one of {', '.join(_SPEAKS)}, or a file's name"
        )


def generate(call: str, rng: np.random.Generator) -> Jobs:
    """Run ``name:key=value,...``. Raises: InputError for unknown names, keys, or values that are no numbers."""
    function, options = _parsed(call)
    return function(rng, **options)


def check_call(call: str) -> None:
    """Whether a call can be understood, without running it. Raises: InputError as ``generate``."""
    _parsed(call)


def _parsed(call: str) -> tuple[Callable[..., Jobs], dict[str, Any]]:
    name, _, rest = call.partition(":")
    function: Callable[..., Jobs] = importlib.import_module(f"wattqueue.workload.{name}").generate
    known = [key for key in inspect.signature(function).parameters if key != "rng"]
    options: dict[str, Any] = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        if key not in known:
            raise InputError(f"unknown option {key!r}", where=call, mend=f"one of {', '.join(known)}")
        options[key] = _number(value, call)
    return function, options


def _number(text: str, call: str) -> float | int:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{text!r} is no number", where=call, mend="write key=number") from None
