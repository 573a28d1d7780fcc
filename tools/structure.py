"""Count what makes a code base hard to oversee: ``python -m tools.structure [--against COMMIT]``.

Code lines are lines that hold code: no blank lines, comments or docstrings. Import circles are sets of modules each of
which imports each other, directly or through others. At the top level only imports count that are carried out when a
module is loaded. Lazy imports are those inside functions and under ``if TYPE_CHECKING:``: a package that loads names at
their first use states there where they are.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from tools.packages import CORE

SLOTS = "codes"
"""Module of the numbers of kernel state: ``counter[codes.AVAILABLE]`` is a use of one."""
STATE = f"{CORE}.kernels.state."
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True)
class File:
    """One file of Python under a folder of sources."""

    name: str
    """Dotted, with its package: ``wattqueue.live.table``; a package by its own name."""
    text: str
    is_package: bool

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.name)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the tree, walked once."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def code_lines(self) -> frozenset[int]:
        """Numbers of the lines that hold code."""
        found: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in NO_CODE:
                found.update(range(token.start[0], token.end[0] + 1))
        for text in _docstrings(self.nodes):
            found.difference_update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
        return frozenset(found)

    def code_lines_of(self, node: ast.stmt) -> int:
        """Number of code lines of a class or function."""
        return len(self.code_lines & frozenset(range(node.lineno, (node.end_lineno or node.lineno) + 1)))


def _docstrings(nodes: tuple[ast.AST, ...]) -> Iterator[ast.stmt]:
    """Texts that stand alone as a statement: docstrings of modules, classes, functions and attributes."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node


@dataclass(frozen=True)
class Structure:
    """The figures of one tree."""

    core_lines: int
    """Code lines of the core."""
    all_lines: int
    """Code lines of all packages."""
    largest_module: int
    """Lines of the longest file, everything counted."""
    largest_class: int
    """Code lines of the longest class."""
    wide_functions: int
    """Functions with more than 8 positional parameters (``self`` and ``cls`` not counted)."""
    circle: int
    """Modules in the largest import circle at the top level of modules."""
    lazy_circle: int
    """Modules in the largest import circle, lazy imports included."""
    live_modules: int
    """Files in ``wattqueue/live`` itself, without its folders."""
    numbered_slots: int
    """Uses of numbered slots of kernel state outside ``kernels/state``."""


def files_in(source: Path) -> tuple[File, ...]:
    """Every file of Python under ``source``, a folder of packages."""
    found = []
    for path in sorted(source.rglob("*.py")):
        parts = list(path.relative_to(source).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(File(name, path.read_text(encoding="utf-8"), is_package))
    return tuple(found)


def structure_of(files: tuple[File, ...]) -> Structure:
    """Count one tree."""
    core = [file for file in files if file.name.partition(".")[0] == CORE]
    return Structure(
        core_lines=sum(len(file.code_lines) for file in core),
        all_lines=sum(len(file.code_lines) for file in files),
        largest_module=max((len(file.text.splitlines()) for file in files), default=0),
        largest_class=max((lines for _, lines in classes(files)), default=0),
        wide_functions=len(list(wide_functions(files))),
        circle=max((len(names) for names in circles(files, lazy=False)), default=0),
        lazy_circle=max((len(names) for names in circles(files, lazy=True)), default=0),
        live_modules=sum(
            file.name.startswith(f"{CORE}.live.") and file.name.count(".") == 2 and not file.is_package
            for file in files
        ),
        numbered_slots=sum(_slots(file) for file in files if not f"{file.name}.".startswith(STATE)),
    )


def classes(files: tuple[File, ...]) -> Iterator[tuple[str, int]]:
    """Every class, with its code lines."""
    for file in files:
        for node in file.nodes:
            if isinstance(node, ast.ClassDef):
                yield f"{file.name}.{node.name}", file.code_lines_of(node)


def wide_functions(files: tuple[File, ...]) -> Iterator[str]:
    """Functions with more than 8 positional parameters."""
    for file in files:
        for node in file.nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names = [a.arg for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")]
                if len(names) > 8:
                    yield f"{file.name}.{node.name}"


def _slots(file: File) -> int:
    return sum(
        isinstance(node, ast.Subscript)
        and any(
            isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == SLOTS
            for part in (node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice])
        )
        for node in file.nodes
    )


def imports(file: File, known: frozenset[str], lazy: bool) -> frozenset[str]:
    """Modules of the tree that a file imports when it is loaded; with ``lazy``, all that it names."""
    return frozenset({_loaded(name, known) for name in imported(file, lazy)} - {"", file.name})


def imported(file: File, lazy: bool) -> frozenset[str]:
    """Names that a file imports when it is loaded, of any module; with ``lazy``, all that it names."""
    found: set[str] = set()
    waiting: list[ast.AST] = [file.tree]
    while waiting:
        node = waiting.pop()
        if not lazy and isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting.extend(node.orelse)
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and not lazy:
            continue
        if isinstance(node, ast.Import):
            found.update(a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(file, node)
            found.update(f"{base}.{a.name}" for a in node.names)
        waiting.extend(ast.iter_child_nodes(node))
    return frozenset(found)


def _base(file: File, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    parts = file.name.split(".")
    keep = len(parts) - node.level + file.is_package
    return ".".join([*parts[:keep], *([node.module] if node.module else [])])


def _loaded(name: str, known: frozenset[str]) -> str:
    """The module of the tree that an imported name stands for; empty for modules of others."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def closure(files: tuple[File, ...], names: Iterable[str]) -> tuple[tuple[File, ...], frozenset[str]]:
    """Files that are loaded where some modules are, and the names of packages of others that they import then.

    Packages of the standard library are left out.
    """
    by_name = {file.name: file for file in files}
    known, waiting = frozenset(by_name), list(names)
    found: dict[str, File] = {}
    others: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = file = by_name[name]
        loaded = imports(file, known, lazy=False)
        # a module's packages are loaded before it
        parents = {part.rpartition(".")[0] for part in (name, *loaded)} & known
        waiting += loaded | parents
        others |= {one.partition(".")[0] for one in imported(file, lazy=False)}
    tops = {name.partition(".")[0] for name in known}
    return tuple(found.values()), frozenset(others - tops - sys.stdlib_module_names)


def circles(files: tuple[File, ...], lazy: bool) -> list[frozenset[str]]:
    """Import circles, the largest first: strongly connected components of more than one module."""
    names = [file.name for file in files]
    places = {name: place for place, name in enumerate(names)}
    known = frozenset(names)
    arrows = [(places[file.name], places[name]) for file in files for name in imports(file, known, lazy)]
    rows, columns = np.array(arrows, dtype=np.intp).reshape(-1, 2).T
    graph = csr_matrix((np.ones(len(arrows)), (rows, columns)), shape=(len(names), len(names)))
    _, labels = connected_components(graph, directed=True, connection="strong")
    groups: dict[int, set[str]] = {}
    for name, label in zip(names, labels, strict=True):
        groups.setdefault(int(label), set()).add(name)
    return sorted((frozenset(group) for group in groups.values() if len(group) > 1), key=len, reverse=True)


def sources_of(commit: str, folder: Path) -> Path:
    """Unpack the sources of a commit into ``folder``; returns their folder of packages."""
    archive = subprocess.run(["git", "archive", commit, "src"], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "src"


def main() -> None:
    """Print the figures, beside those of another commit if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--against", metavar="COMMIT", help="a commit to compare with")
    parser.add_argument("--circles", action="store_true", help="print the modules of the import circles")
    options = parser.parse_args()
    files = files_in(Path("src"))
    now = structure_of(files)
    before = None
    if options.against:
        with tempfile.TemporaryDirectory() as folder:
            before = structure_of(files_in(sources_of(options.against, Path(folder))))
    for field in fields(Structure):
        figure = getattr(now, field.name)
        if before is None:
            print(f"{field.name:16} {figure:7,}")
        else:
            old = getattr(before, field.name)
            change = f"{figure / old - 1:+7.1%}" if old else ""
            print(f"{field.name:16} {old:7,} {figure:7,} {change}")
    if options.circles:
        for lazy in (False, True):
            for names in circles(files, lazy):
                print("lazy" if lazy else "top level", len(names), *sorted(names))


if __name__ == "__main__":
    main()
