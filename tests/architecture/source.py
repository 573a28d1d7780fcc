"""The source tree as syntax trees, for tests that hold the rules of the house."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tools.packages import CORE, ROOT, packages

PACKAGE = ROOT / "src" / CORE


@dataclass(frozen=True)
class Module:
    """One file of a package."""

    path: Path
    name: str
    """Dotted. Without ``wattqueue.`` in the core, whose package itself is the empty string; whole in other packages."""
    root: Path = ROOT
    """The tree in which it stands."""

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"), str(self.path))

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the tree, walked once."""
        return tuple(ast.walk(self.tree))

    @property
    def area(self) -> str:
        """The first part of the name: ``kernels`` of ``kernels.tree``; another package is one area."""
        return self.name.partition(".")[0]

    @property
    def lines(self) -> int:
        return len(self.path.read_text(encoding="utf-8").splitlines())

    def at(self, node: ast.AST) -> str:
        """``file:line`` of a node, as editors read it."""
        return f"{self.path.relative_to(self.root)}:{getattr(node, 'lineno', 1)}"

    @cached_property
    def aliases(self) -> dict[str, str]:
        """What each imported name stands for: ``np`` -> ``numpy``, ``njit`` -> ``numba.njit``."""
        found: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for a in node.names:
                    found[a.asname or a.name.partition(".")[0]] = a.name if a.asname else a.name.partition(".")[0]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
        return found

    def full_name(self, node: ast.expr) -> str:
        """``numpy.random.rand`` for ``np.random.rand``; what cannot be resolved keeps its leading dot."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            return f"{self.full_name(node.value)}.{node.attr}"
        if isinstance(node, ast.Call):
            return f"{self.full_name(node.func)}()"
        return ""

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Every call, with the full name of what is called."""
        for node in self.nodes:
            if isinstance(node, ast.Call):
                yield node, self.full_name(node.func)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        for node in self.nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node


@cache
def tree_of(path: Path) -> ast.Module:
    """The tree of a file of tests, parsed once for all that look at it."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def modules() -> tuple[Module, ...]:
    """Every file of all packages."""
    return modules_in(ROOT, packages())


def modules_in(root: Path, names: Iterable[str]) -> tuple[Module, ...]:
    """Every file of the packages ``names`` under ``root``/src."""
    found = []
    for name in names:
        for path in sorted((root / "src" / name).rglob("*.py")):
            parts = list(path.relative_to(root / "src").with_suffix("").parts)
            if parts[-1] == "__init__":
                parts.pop()
            found.append(Module(path, ".".join(parts[1:] if name == CORE else parts), root))
    return tuple(found)


RULES: dict[str, Callable[[Module], None]] = {}
"""The rules that every module keeps, by the names of their tests."""


def of_every_module(rule: Callable[[Module], None]) -> Callable[[], None]:
    """Make one test of a rule that every module keeps; it names all modules that do not.

    One test a module and rule would be 7,500 tests, which take longer to collect and hand out than to run.
    """

    def test() -> None:
        broken = []
        for module in modules():
            try:
                rule(module)
            except AssertionError as error:
                broken.append(f"{module.name or CORE}: {error}")
        assert not broken, "\n".join(broken)

    RULES[rule.__name__] = rule
    test.__name__ = rule.__name__
    test.__doc__ = rule.__doc__
    test.__module__ = rule.__module__
    return test


def run_time_imports(module: Module) -> Iterator[tuple[ast.stmt, str]]:
    """Every import that is carried out, wherever it stands: the node and the dotted name imported.

    Imports under ``if TYPE_CHECKING:`` are never carried out. ``from a import b`` gives ``a.b``.
    """
    waiting: list[ast.AST] = [module.tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and module.full_name(node.test).endswith("TYPE_CHECKING"):
            waiting.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from ((node, a.name) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node, f"{_base(module, node)}.{a.name}") for a in node.names)
        waiting.extend(ast.iter_child_nodes(node))


def _base(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    package = list(module.path.relative_to(module.root / "src").with_suffix("").parts)
    keep = len(package) - node.level
    return ".".join([*package[:keep], *([node.module] if node.module else [])])
