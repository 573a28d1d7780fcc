"""Import a Python file of the user's own: a part, or a format."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from wattqueue.errors import InputError, WattQueueError


class _Source(SourceFileLoader):
    """Compile the source as it stands: bytecode kept for a file of the same size and second would be taken for it."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the source, without a look at kept bytecode."""
        return self.source_to_code(self.get_data(self.path), self.path)


def load_file(path: Path, error: type[WattQueueError] = InputError, example: str = "my_format.py") -> ModuleType:
    """Import a Python file by path under a name made from its content: once, and again where it has changed since.

    Two files of one name do not replace one another, and classes of the file can be pickled by workers.

    Raises: ``error`` if it is no file, or raises an exception while it loads; ``example`` is for the hint.
    """
    if not path.is_file():
        what = "is a directory, not a file" if path.is_dir() else "no such file"
        raise error(what, where=path, hint=f"give the path of a Python file: {example}")
    content = hashlib.sha256(f"{path.resolve()}\0".encode() + path.read_bytes()).hexdigest()
    name = f"wattqueue_user_{content[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    loader = _Source(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None or path.suffix != ".py":
        raise error("not a Python file", where=path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that its classes can be pickled
    try:
        loader.exec_module(module)
    except Exception as why:
        del sys.modules[name]
        raise error(f"does not load: {type(why).__name__}: {why}", where=path) from why
    return module
