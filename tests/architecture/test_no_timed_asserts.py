"""No test fails because the machine is busy: what took how long is recorded or benchmarked (bench/), never bounded.

Found are assertions that bound from above what a clock of the test showed: read in the assertion, kept in a name, or
returned by ``wait_for``. A wait that gives up after its patience (an assertion within the loop that waits), and a least
time, which a busy machine only exceeds, are fine.
"""

from __future__ import annotations

import ast

from tests.architecture.source import tree_of
from tools.packages import ROOT

CLOCKS = ("time.monotonic(", "time.perf_counter(", "time.process_time(", "time.time() -", "performance.now(", ".took_s")
WAITS = "wait_for("
BOUNDS = (ast.Lt, ast.LtE)


def names_of_times(function: ast.AST) -> set[str]:
    """Names of a function that hold what a clock showed, or what was computed of it."""
    found: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets, value=value) if tells_time(value, found) or WAITS in ast.unparse(value):
                found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value]):
                found |= {name} if tells_time(value, found) else set()
    return found


def tells_time(expression: ast.AST, times: set[str]) -> bool:
    """Whether an expression reads a clock, or computes with names that hold times alone."""
    if any(clock in ast.unparse(expression) for clock in CLOCKS):
        return True
    match expression:
        case ast.Name(id=name):
            return name in times
        case ast.BinOp(left=left, right=right):
            return tells_time(left, times) or tells_time(right, times)
        case ast.Call(func=ast.Name(id="min" | "max" | "sum" | "round" | "sorted"), args=[first, *_]):
            return tells_time(first, times)
    return False


def bounds_a_time(test: ast.expr, times: set[str]) -> bool:
    """Whether an assertion's test has a time on the smaller side of a comparison."""
    for node in ast.walk(test):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for i, sign in enumerate(node.ops):
                less, more = (sides[i], sides[i + 1]) if isinstance(sign, BOUNDS) else (sides[i + 1], sides[i])
                ordered = isinstance(sign, (*BOUNDS, ast.Gt, ast.GtE))
                if ordered and tells_time(less, times) and not tells_time(more, times):
                    return True
    return False


def timed(source: ast.AST) -> list[int]:
    """Lines of the assertions that a busy machine fails."""
    waits = {
        id(inner)
        for loop in ast.walk(source)
        if isinstance(loop, ast.While)
        for inner in ast.walk(loop)
        if isinstance(inner, ast.Assert)
    }
    found: set[int] = set()
    for function in ast.walk(source):
        if isinstance(function, ast.FunctionDef):
            asserts = [n for n in ast.walk(function) if isinstance(n, ast.Assert) and id(n) not in waits]
            times = names_of_times(function) if asserts else set()
            found |= {node.lineno for node in asserts if bounds_a_time(node.test, times)}
    return sorted(found)


def test_no_assertion_bounds_elapsed_time() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("*.py"))}
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, text in texts.items()
        if any(clock in text for clock in (*CLOCKS, WAITS))
        for line in timed(tree_of(path))
    ]
    assert not found, "record the time (record_property) or benchmark it (bench/)"


def test_each_way_to_bound_a_time_is_found() -> None:
    source = """
def test(site):
    begin = time.monotonic()
    took = []
    took.append(time.perf_counter() - begin)
    waited_s = wait_for("it", lambda: True)
    drawn = browser.js("performance.now()")
    assert min(took) < 1.0
    assert waited_s <= 10.0
    assert 5.0 > time.monotonic() - begin
    assert time.time() - site.since_s < 5.0
    assert drawn < 1000
    assert site.run().took_s < 5.0
    assert time.monotonic() - begin > 2.5
    while not site.up():
        assert time.monotonic() - begin < PATIENCE_S
"""
    assert timed(ast.parse(source)) == [8, 9, 10, 11, 12, 13]
