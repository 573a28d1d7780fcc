"""Every kernel has a naive twin of the same name in tests/reference, or is part of one that has.

An inner kernel needs none where a kernel with a twin calls it, directly or through others: the twin answers
for the whole. A kernel that Python calls beside those stands in ``SHOWN_BY``, under the twin that answers for it.
"""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.architecture.source import ROOT, modules

SHOWN_BY = {
    # The simulator in plain Python replays worlds with actions, failures and snapshots beside the engine.
    "act": (
        "start_checked",
        "set_frequency",
        "set_unit_cap",
        "stop_node",
        "wake_node",
        "stop_unit",
        "wake_unit",
        "refresh_job",
        "set_prediction",
        "job_of_unit",
    ),
    "available": ("budget_once", "set_margin"),
    "margin": ("fits_watts", "follow_margin", "margin_uw", "square_w"),
    "queued_entries": ("list_queue", "list_running"),
    "schedule": ("schedule_once", "load_queue", "load_running", "load_unusable", "take_interval"),
    # One figure by definition from all jobs that ended, against sums kept up to date.
    "history_predict": ("history_answer", "history_teach", "history_walk", "history_append", "history_learn"),
    "conformal_shift": (
        "conformal_answer",
        "conformal_correct",
        "conformal_insert",
        "conformal_learn",
        "conformal_remove",
        "conformal_take",
        "conformal_teach",
        "conformal_walk",
    ),
    # Watts of one run at one instant, against a merge of all steps.
    "run_uw": (
        "bucket_of",
        "count_steps",
        "heap_sort",
        "insertion_sort",
        "merge_steps",
        "place_of",
        "place_steps",
        "put_step",
        "run_energies",
        "sample_uw",
        "samples_at",
        "sift_down",
        "sort_steps",
        "swap_steps",
    ),
}


@cache
def kernels() -> dict[str, set[str]]:
    """Names that each kernel calls, by the kernel's name."""
    found = {}
    for module in modules():
        if module.area != "kernels":
            continue
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef) and is_kernel(node):
                calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
                found[node.name] = {f.id if isinstance(f, ast.Name) else getattr(f, "attr", "") for f in calls}
    return found


def is_kernel(node: ast.FunctionDef) -> bool:
    marks = ("kernel", "inlined", "entry", "direct")
    return any(isinstance(d, ast.Name) and d.id in marks for d in node.decorator_list)


@cache
def twins() -> set[str]:
    """Functions and methods of tests/reference."""
    files = (ROOT / "tests" / "reference").rglob("*.py")
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in files)
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def reached(start: set[str]) -> set[str]:
    """Kernels of ``start`` and all that they call."""
    seen: set[str] = set()
    waiting = [name for name in start if name in kernels()]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(kernels()[name] & kernels().keys())
    return seen


@pytest.mark.parametrize("name", sorted(kernels()))
def test_a_kernel_has_a_twin_or_is_part_of_one(name: str) -> None:
    listed = {n for names in SHOWN_BY.values() for n in names}
    assert name in reached(twins() | listed), (
        f"write {name} once more in tests/reference, naively, and hold the kernel against it; "
        "or enter it in SHOWN_BY under the twin that answers for it"
    )


@pytest.mark.parametrize("twin", sorted(SHOWN_BY))
def test_the_list_of_the_others_is_needed(twin: str) -> None:
    assert twin in twins()
    for name in SHOWN_BY[twin]:
        assert name in kernels(), f"{name} is no kernel any more"
        assert name not in twins(), f"{name} has a twin of its own now"
