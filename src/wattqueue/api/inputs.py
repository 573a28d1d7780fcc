"""Arguments that several functions take: texts and paths, and a machine by name, by file, by size or as an object.

Texts go on to the readers of the command line unchanged. What those cannot get is checked here: in Python an argument
may have any type, and a wrong one must be named in one line rather than fail deep inside.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from wattqueue.errors import InputError, WattQueueError
from wattqueue.model.machine import Machine
from wattqueue.model.physics import Physics
from wattqueue.options import options_of
from wattqueue.runs.task import Task
from wattqueue.workload.generated import is_generated

P = ParamSpec("P")
R = TypeVar("R")
O = TypeVar("O")  # noqa: E741
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z])")
"""A flag of the command line."""
PathLike = str | os.PathLike[str]
"""A path, or another text where the command line takes one too."""


def machine_arguments(
    machine: Machine | PathLike | None, nodes: int | None = None, node_watts: str | None = None
) -> tuple[Machine | None, dict[str, Any]]:
    """Return the machine if it is an object, and the fields of a ``Task`` that name one otherwise.

    Raises: InputError for an object that is no machine, or a machine object beside ``nodes`` or ``node_watts``. What
    names can do wrong is checked by ``runs.task.task_machine``.
    """
    if isinstance(machine, Machine):
        if nodes is not None or node_watts is not None:
            raise InputError(
                "give a Machine or nodes, not both", where="machine", hint="leave out nodes and node_watts"
            )
        return machine, {}
    name = None if machine is None else text(machine, "machine", "a name of the catalogue, a TOML file or a Machine")
    watts = None if node_watts is None else text(node_watts, "node_watts", 'a text such as "95:190"')
    return None, {"machine": name, "nodes": nodes, "node_watts": watts}


def physics_arguments(
    task: Task, physics: Physics | PathLike | None, error: float, seed: int
) -> tuple[Physics | None, dict[str, Any]]:
    """Return the physics if it is an object, and the fields of a ``Task`` that name it.

    The seed of generated jobs is that of their generation; of others it is ``seed``, which draws the error.
    """
    made: Physics | None = None
    name: str | None = None
    if isinstance(physics, Physics):
        # It is in no file: a record that names it cannot be repeated in silence without it.
        made, name = physics, "python:Physics"
    elif physics is not None:
        name = text(physics, "physics", "the name of a TOML, or Physics")
    seed = task.seed if is_generated(task.workload) else seed
    return made, {"physics": name, "physics_error": error or None, "seed": seed}


def of_options(options: Callable[P, O]) -> Callable[[Callable[[O], R]], Callable[P, R]]:
    """Let a function of options take them as arguments (``wattqueue.options``): signature and docstring are theirs."""

    def decorate(function: Callable[[O], R]) -> Callable[P, R]:
        @of_arguments
        @functools.wraps(function)
        def call(*given: P.args, **named: P.kwargs) -> R:
            return function(options(*given, **named))

        said = "".join(f"    {one.name}: {what.sentence}\n" for one, what in options_of(options))
        # without its indentation, which Python leaves out itself from 3.13 on
        document = inspect.getdoc(function) or ""
        call.__doc__ = document.replace("\nRaises:", f"\nArgs:\n{said}\nRaises:", 1)
        result = inspect.signature(function).return_annotation
        call.__signature__ = inspect.signature(options).replace(return_annotation=result)  # type: ignore[attr-defined]
        return call

    return decorate


def of_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Let the errors of a function speak of its arguments: ``node_watts`` where the command line says ``--node-watts``.

    The readers behind it are the command line's own.
    """

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return function(*arguments, **named)
        except WattQueueError as error:
            where = error.where if isinstance(error.where, Path) else _named(error.where)
            raise type(error)(_named(error.what) or "", where=where, hint=_named(error.hint)) from error

    return call


def _named(words: str | None) -> str | None:
    """Return a text with arguments in place of flags."""
    return None if words is None else FLAG.sub(lambda flag: flag[1].replace("-", "_"), words)


def text(value: Any, where: str, hint: str) -> str:
    """Return a text or path as text. Raises: InputError naming the argument for anything else."""
    if isinstance(value, (str, os.PathLike)):
        return str(os.fspath(value))
    raise InputError(f"{value!r} cannot be used", where=where, hint=f"give {hint}")
