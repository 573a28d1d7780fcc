"""Write the table of verbs of the command line: ``python -m tools.verbs``.

A verb of the core is a file or folder of ``wattqueue/cli``; other packages state theirs as entry points
(pyproject.toml). ``wattqueue --help`` reads the table: entry points of an installation take 55 ms to read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.packages import CORE, ROOT

TABLE = Path("src") / CORE / "cli" / "_verbs.py"
GROUP = f"{CORE}.verbs"
HEAD = '''\
"""Verbs of all packages, their modules and their lines of ``wattqueue --help``: made by ``python -m tools.verbs``."""

from __future__ import annotations

VERBS = {
'''


def modules(root: Path = ROOT) -> dict[str, str]:
    """Return the module of each verb by the name it is called with, sorted by name.

    The name ``import`` has the module ``import_``; what starts with an underscore is a helper.
    """
    folder = root / "src" / CORE / "cli"
    files = [p for p in folder.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()]
    stems = [p.stem for p in files if not p.name.startswith(("_", "."))]
    own = {stem.rstrip("_").replace("_", "-"): f"{CORE}.cli.{stem}" for stem in stems}
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return dict(sorted({**own, **project.get("entry-points", {}).get(GROUP, {})}.items()))


def summary(module: str, root: Path = ROOT) -> str:
    """Return the first line of a verb's docstring, without importing the verb."""
    path = root / "src" / Path(*module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    return file.read_text(encoding="utf-8").partition("\n")[0].strip().lstrip("r").strip('"')


def lines(root: Path = ROOT) -> Iterator[str]:
    """Yield the lines of the table."""
    yield HEAD
    for name, module in modules(root).items():
        yield f'    "{name}": (\n        "{module}",\n        "{summary(module, root)}",\n    ),\n'
    yield "}\n"
    yield '"""Module and summary of each verb, by the name it is called with."""\n'


if __name__ == "__main__":
    (ROOT / TABLE).write_text("".join(lines()), encoding="utf-8")
