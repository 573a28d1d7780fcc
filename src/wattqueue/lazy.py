"""Names of a package that are imported when they are first used.

``import wattqueue`` has to stay cheap: a shell completion, a worker process and ``wattqueue --help`` all do it, and
numpy, polars and numba together take half a second. A package that offers names from other modules therefore states
where each one is defined, and gets a module-level ``__getattr__`` (PEP 562) that imports it on first access.

This module imports nothing of WattQueue, so every package may use it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package.

    Args:
        package: Name of the package whose ``__getattr__`` it becomes.
        homes: Module in which each public name is defined.

    Example, in a package's ``__init__``::

        __getattr__ = lazy_names(__name__, {"read_jobs": "wattqueue.api.jobs"})
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        # From now on an ordinary attribute. If the import above has put a package of this name there, it stays.
        return vars(sys.modules[package]).setdefault(name, value)

    return load
