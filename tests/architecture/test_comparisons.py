"""Differences of two runs are formed in ``model.comparability`` alone (rule 18 of docs/semantics.md).

Found are subtractions, divisions and orderings of which both sides hold the same metric, by its name, or the means of
two estimates. Names that were assigned a metric count as that metric. What this cannot see (metrics whose names are
variables, sorted lists) is driven by ``tests/api/test_unequal_work.py``.
"""

from __future__ import annotations

import ast

import pytest

from tests.architecture.source import Module, of_every_module
from wattqueue.model.quantities import STATISTICS

GATE = "model.comparability"
FAMILIES = ("wait_s", "all_wait_s", "node_wait_s", "turnaround_s", "bounded_slowdown")
METRICS = frozenset(
    [f"{family}_{ending}" for family in FAMILIES for ending in STATISTICS]
    + ["makespan_s", "utilization", "job_energy_j", "machine_energy_j", "edp_js", "jobs_never_ran", "jobs_killed"]
)
"""Metrics of which no difference is formed outside the gate."""
SIGNS = (ast.Sub, ast.Div, ast.FloorDiv)
ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def metrics_in(expression: ast.AST, names: dict[str, set[str]]) -> set[str]:
    """Metrics that an expression holds: as constants, or in names that were assigned them."""
    found: set[str] = set()
    for node in ast.walk(expression):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in METRICS:
            found.add(node.value)
        if isinstance(node, ast.Name):
            found |= names.get(node.id, set())
    return found


def through_the_gate(value: ast.AST) -> bool:
    """Whether a value comes from the gate's functions, which return None where they refuse."""
    calls = [node.func for node in ast.walk(value) if isinstance(node, ast.Call)]
    return any(isinstance(f, ast.Name) and f.id in {"change", "change_percent", "factor", "gate"} for f in calls)


def names_of_metrics(function: ast.AST) -> dict[str, set[str]]:
    """Names of a function that hold metrics, with these."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Dict) and not through_the_gate(node.value):
            held = metrics_in(node.value, found)
            names = [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
            found |= {name: held for name in names if held}
    return found


def differences(source: ast.AST) -> list[int]:
    """Lines of a source at which a metric of one run is set against that of another."""
    found = set()
    functions = [n for n in ast.walk(source) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    for function in functions:
        names = names_of_metrics(function)
        for node in ast.walk(function):
            match node:
                case ast.BinOp(left=left, op=op, right=right) if isinstance(op, SIGNS):
                    pass
                case ast.Compare(left=left, ops=[op], comparators=[right]) if isinstance(op, ORDERS):
                    pass
                case _:
                    continue
            if metrics_in(left, names) & metrics_in(right, names) or means_of_two(left, right):
                found.add(node.lineno)
    return sorted(found)


def means_of_two(left: ast.expr, right: ast.expr) -> bool:
    """Whether both sides are the mean of an estimate, of two different ones."""
    match left, right:
        case ast.Attribute(value=a, attr="mean"), ast.Attribute(value=b, attr="mean"):
            return ast.dump(a) != ast.dump(b)
    return False


@of_every_module
def test_differences_of_runs_are_formed_by_the_gate(module: Module) -> None:
    text = module.path.read_text(encoding="utf-8")
    # Without one of these no expression holds a metric or a mean; most modules have none, and walking them takes long.
    if module.name != GATE and (".mean" in text or any(metric in text for metric in METRICS)):
        found = differences(module.tree)
        assert not found, f"lines {found}: use {GATE}"


@pytest.mark.parametrize(
    "planted",
    [
        'return other.metrics["machine_energy_j"] - base.metrics["machine_energy_j"]',
        'return 100 * (row["wait_s_mean"] / first["wait_s_mean"] - 1)',
        'before, after = (r.metrics.get("wait_s_mean") for r in runs)\n    return float(after) / float(before)',
        'return a.metrics["makespan_s"] < b.metrics["makespan_s"]',
        "return 100 * (value.mean - base.mean) / abs(base.mean)",
    ],
)
def test_a_planted_bypass_is_found(planted: str) -> None:
    assert differences(ast.parse(f"def f():\n    {planted}\n"))


@pytest.mark.parametrize(
    "fine",
    [
        'return metrics["machine_energy_j"] / metrics["makespan_s"]',
        'after = change("wait_s_mean", a, b, gate)\n    return after < 0',
        'return metrics["wait_s_mean"] / 3600',
        "return self.high - self.mean",
    ],
)
def test_figures_of_one_run_are_none(fine: str) -> None:
    assert not differences(ast.parse(f"def f():\n    {fine}\n"))
