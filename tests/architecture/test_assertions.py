"""Every test can fail: it asserts something itself, expects an error, or calls a helper that does.

A helper counts by what it does, not by its name: its definition is looked up and must assert, raise an error of
its own, or hand over to one that does.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.architecture.source import tree_of
from tools.packages import ROOT

Function = ast.FunctionDef | ast.AsyncFunctionDef
EXPECT = ("pytest.raises", "pytest.warns", "pytest.fail", "np.testing.assert_", "parametrize_with_checks")
"""Calls that fail a test; scikit-learn hands each of its own checks to a test as a function that raises."""
RAISE_THEMSELVES = ("wattqueue.checks", "hypothesis.stateful")
"""Packages whose functions exist to raise an error where something is wrong."""


@cache
def definitions(path: Path) -> dict[str, list[Function]]:
    """Functions and methods of a file by their bare name."""
    found: dict[str, list[Function]] = {}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, Function):
            found.setdefault(node.name, []).append(node)
    return found


@cache
def imported(path: Path) -> dict[str, tuple[str, str]]:
    """Imported names: the module that each comes from, and its name there ("" for a module itself)."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                as_module = file_of(f"{node.module}.{alias.name}")
                origin = (f"{node.module}.{alias.name}", "") if as_module else (node.module, alias.name)
                found[alias.asname or alias.name] = origin
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (alias.name, "")
    return found


def file_of(module: str) -> Path | None:
    """The file of a module of the tests."""
    path = ROOT / Path(*module.split("."))
    if module.startswith("tests.") and path.with_suffix(".py").is_file():
        return path.with_suffix(".py")
    return None


def fails_by_itself(function: Function) -> bool:
    """Whether a function has an assertion that is not about a constant, raises AssertionError or expects an error."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(EXPECT):
            return True
        if isinstance(node, ast.Raise) and node.exc is not None and "AssertionError" in ast.unparse(node.exc):
            return True
    return False


def can_fail(function: Function, path: Path, seen: frozenset[int] = frozenset()) -> bool:
    """Whether a function, or one of the tests' own helpers that it calls, can fail."""
    if id(function) in seen:
        return False
    if fails_by_itself(function):
        return True
    seen |= {id(function)}
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return any(call_can_fail(call, path, seen) for call in calls)


def call_can_fail(call: ast.expr, path: Path, seen: frozenset[int]) -> bool:
    """Whether what is called can fail: a helper of this file, one imported from another, or a method by its name."""
    if isinstance(call, ast.Name):
        module, name = imported(path).get(call.id, ("", call.id))
    elif isinstance(call, ast.Attribute):
        owner = call.value.id if isinstance(call.value, ast.Name) else ""
        module, name = imported(path).get(owner, ("", ""))[0], call.attr
    else:
        return False
    if module.startswith(RAISE_THEMSELVES):
        return True
    where = file_of(module) if module else path
    if where is None:
        return False
    return any(can_fail(helper, where, seen) for helper in definitions(where).get(name, []))


def test_every_test_can_fail() -> None:
    cannot = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, Function) and node.name.startswith("test") and not can_fail(node, path)
    ]
    assert not cannot


def test_a_test_that_asserts_nothing_is_found() -> None:
    source = "def test_nothing():\n    check_all(1)\n    assert True\n"
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert not can_fail(function, Path(__file__))
    assert can_fail(definitions(Path(__file__))["test_every_test_can_fail"][0], Path(__file__))
