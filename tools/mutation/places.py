"""Find the places of a source file that a mutation can change, and draw some of them by seed.

A mutation replaces one range of the source by another text: everything else, comments and layout included, stays.
What no test could be asked to notice is left out: annotations, decorators, messages of errors, f-strings, and code
under ``if TYPE_CHECKING``.
"""

from __future__ import annotations

import ast
import random
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tools.packages import folders_named

COMPILER = tuple(f"kernels/_numba/{name}.py" for name in ("fast", "inner", "intrinsics", "plain", "references"))
"""Ends of the names of files that only compiling runs: mutations are tried with kernels as plain Python."""
COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
PACKAGES = ("kernels", "policy", "live", "formats", "wattqueue_agent")
"""What is changed unless others are named: folders of the core, or import packages."""


@dataclass(frozen=True, slots=True)
class Place:
    """One range of a file, and the text that replaces it."""

    file: str
    """Path from the root of the repository."""
    scope: str
    """Qualified name of the function or class around it; empty for the module."""
    line: int
    kind: str
    """comparison, arithmetic, boolean, constant, default or removed statement."""
    before: str
    after: str
    text: str
    """The line, without its indentation."""
    start: int
    """Offsets in bytes."""
    end: int
    nth: int = 0
    """How many places before it in the file are the same mutation, on this line or on one that reads alike."""

    def applied(self, source: bytes) -> bytes:
        """Return the source with this mutation."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def is_same(self, other: Place) -> bool:
        """Return whether this is the same mutation of a file that may have changed elsewhere."""
        return self.mutation == other.mutation

    @property
    def mutation(self) -> tuple[str, ...]:
        """Return what says which mutation it is, wherever its lines are now."""
        return self.file, self.scope, self.text, self.before, self.after


def places_of(root: Path, file: str) -> list[Place]:
    """Return every place of a file, in the order of the source."""
    finder = _Finder(file, (root / file).read_bytes())
    finder.visit(ast.parse(finder.source))
    before: Counter[tuple[str, ...]] = Counter()
    places = []
    for place in sorted(finder.found, key=lambda place: (place.start, place.end, place.kind)):
        places.append(replace(place, nth=before[place.mutation]))
        before[place.mutation] += 1
    return places


def draw(
    root: Path, n: int, seed: int, excluded: Sequence[Place] = (), packages: Sequence[str] = PACKAGES
) -> list[Place]:
    """Return ``n`` places, as many of each package, at most one a line; ``excluded`` ones make room for the next."""
    drawn: list[Place] = []
    for k, package in enumerate(packages):
        share = n // len(packages) + (k < n % len(packages))
        places = list(_all_places(root, package))
        random.Random(f"{seed} {package}").shuffle(places)  # noqa: S311 - a draw that can be repeated, no secret
        kept: dict[tuple[str, int], Place] = {}
        for place in places:
            if len(kept) < share and not any(place.is_same(other) for other in excluded):
                kept.setdefault((place.file, place.line), place)
        drawn += kept.values()
    return drawn


@cache
def _all_places(root: Path, package: str) -> tuple[Place, ...]:
    """Return the places of a package, file by file."""
    files = sorted(file for folder in folders_named(package, root) for file in folder.rglob("*.py"))
    names = [file.relative_to(root).as_posix() for file in files]
    return tuple(place for name in names if not name.endswith(COMPILER) for place in places_of(root, name))


class _Finder(ast.NodeVisitor):
    """Walks a module and lists its places."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.lines = source.split(b"\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.scopes: list[str] = []
        self.found: list[Place] = []

    def offset(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self.offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            self.offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def add(self, kind: str, start: int, end: int, after: str) -> None:
        """Note a place; its line is that of its first byte."""
        line = bisect_right(self.starts, start)
        text = self.lines[line - 1].decode().strip()
        before = self.source[start:end].decode()
        self.found.append(Place(self.file, ".".join(self.scopes), line, kind, before, after, text, start, end))

    def add_operator(self, kind: str, left: ast.AST, right: ast.AST, swap: tuple[str, str]) -> None:
        """Note the operator between two operands, unless a comment stands there."""
        begin, end = self.span(left)[1], self.span(right)[0]
        words = re.escape(swap[0]).replace(r"\ ", r"\s+").encode()
        match = re.fullmatch(rb"[\s)]*(" + words + rb")[\s(]*", self.source[begin:end])
        if match:
            self.add(kind, begin + match.start(1), begin + match.end(1), swap[1])

    # Scopes, and what is left out ##################################################################################

    def _scoped(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.scopes.append(node.name)
        if not isinstance(node, ast.ClassDef):
            for default in [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]:
                self._constant(default, "default")
        for child in node.body:
            self.visit(child)
        self.scopes.pop()

    visit_ClassDef = visit_FunctionDef = visit_AsyncFunctionDef = _scoped  # noqa: N815 - names of ast

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Visit the value alone; that of a field of a class is its default."""
        if node.value is not None and not self._constant(node.value, "default"):
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave f-strings out: they are messages, and their parts have no offsets before Python 3.12."""

    def visit_keyword(self, node: ast.keyword) -> None:
        """Leave out whether a field is printed for debugging."""
        if node.arg != "repr":
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Remove the statement as a whole: what an error says is no behaviour."""
        self.add("removed statement", *self.span(node), "pass")

    # Operators #####################################################################################################

    def visit_Compare(self, node: ast.Compare) -> None:
        for operator, left, right in zip(node.ops, [node.left, *node.comparators], node.comparators, strict=False):
            self.add_operator("comparison", left, right, COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        swap = ARITHMETIC.get(type(node.op))
        if swap and not _is_text(node.left) and not _is_text(node.right):
            self.add_operator("arithmetic", node.left, node.right, swap)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        swap = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.add_operator("boolean", left, right, swap)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start = self.span(node)[0]
            self.add("boolean", start, start + len("not"), "")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._removed(node)
        swap = ARITHMETIC.get(type(node.op))
        if swap and not _is_text(node.value):
            self.add_operator("arithmetic", node.target, node.value, (swap[0] + "=", swap[1] + "="))
        self.generic_visit(node)

    # Conditions, constants, statements #############################################################################

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negated(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negated(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negated(test)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        self._constant(node, "constant")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._removed(node)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        # Without its assignment a name is unbound, which any test notices.
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._removed(node)
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._removed(node)
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._removed(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._removed(node)

    def _removed(self, node: ast.stmt) -> None:
        self.add("removed statement", *self.span(node), "pass")

    def _negated(self, test: ast.expr) -> None:
        """Negate a condition as a whole: a name or a call, which no other mutation changes."""
        if isinstance(test, ast.Name | ast.Call | ast.Attribute | ast.Subscript):
            start, end = self.span(test)
            self.add("boolean", start, end, f"not {self.source[start:end].decode()}")

    def _constant(self, node: ast.expr, kind: str) -> bool:
        """Note a number or truth value. Returns whether it is one."""
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, bool):
            after = str(not value)
        elif isinstance(value, int):
            after = str(value + 1)
        elif isinstance(value, float):
            after = repr(value * 2 if value else 1.0)
        else:
            return False
        self.add(kind, *self.span(node), after)
        return True


def _is_text(node: ast.expr) -> bool:
    """Return whether an operand is a literal text: a sum of texts has no difference."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


class Function(NamedTuple):
    """Where a function is in a file."""

    name: str
    """Qualified name."""
    line: int
    """Line of its first decorator, or of "def", which run when the module is imported."""
    body: int
    """Line of its first statement."""
    end: int


def functions_of(source: str) -> Iterator[Function]:
    """Yield every function of a module, inner ones after outer ones."""

    def walk(node: ast.AST, scope: tuple[str, ...]) -> Iterator[Function]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = (*scope, child.name)
                if not isinstance(child, ast.ClassDef):
                    first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
                    yield Function(".".join(inner), first, child.body[0].lineno, child.end_lineno or child.lineno)
                yield from walk(child, inner)
            else:
                yield from walk(child, scope)

    yield from walk(ast.parse(source), ())
