"""A package that may be called, since a public function of ``wattqueue`` has the same name."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


def callable_package(package: str, home: str) -> None:
    """Make a package callable: calling it calls the function of its own last name in the module ``home``.

    A package and a public function of ``wattqueue`` may need the same name (``wattqueue.whatif``). Importing the
    package sets the attribute of that name on ``wattqueue``, whatever stood there before, so the function cannot keep
    its place. With this, both uses work and their order does not matter.
    """
    import inspect  # a third of a millisecond, and needed by editors alone

    name = package.rpartition(".")[2]

    class CallablePackage(ModuleType):
        """A package that may be called like a function."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Call the function."""
            return getattr(importlib.import_module(home), name)(*args, **kwargs)

        @property
        def __signature__(self) -> inspect.Signature:
            """Return the function's parameters, which editors and notebooks show while a call is typed."""
            return inspect.signature(getattr(importlib.import_module(home), name))

    sys.modules[package].__class__ = CallablePackage
