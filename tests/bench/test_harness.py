"""The harness of the benchmarks: a wrong digest fails, a time does not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench import harness
from bench.harness import Benchmark, Measured, Skip, digest, figure, run_one

KNOWN = {"one": "abc"}


def made(value: float, found: str | None = None, **bounds: float) -> Benchmark:
    return Benchmark("one", "jobs/s", lambda: Measured(value, found), **bounds)


def test_a_wrong_digest_fails_however_fast() -> None:
    outcome = run_one(made(1e9, "other", at_least=1.0), KNOWN, accept=False)
    assert outcome.failed
    assert "expected abc" in outcome.note


def test_an_unknown_digest_fails_until_it_is_accepted() -> None:
    assert run_one(made(1.0, "new"), {}, accept=False).failed
    assert not run_one(made(1.0, "new"), {}, accept=True).failed


def test_a_slow_run_is_told_and_does_not_fail() -> None:
    slow = run_one(made(1.0, "abc", at_least=2.0), KNOWN, accept=False)
    assert not slow.failed
    assert slow.note == "not met here"
    assert run_one(made(3.0, "abc", at_least=2.0), KNOWN, accept=False).note == "met"
    assert run_one(made(3.0, "abc", at_most=2.0), KNOWN, accept=False).note == "not met here"


def test_a_reason_to_leave_out_is_told() -> None:
    def absent() -> Measured:
        raise Skip("needs a trace")

    outcome = run_one(Benchmark("one", "s", absent), KNOWN, accept=False)
    assert not outcome.failed
    assert outcome.note == "left out: needs a trace"


def test_digest_sees_values_types_and_shapes() -> None:
    column = np.arange(6.0)
    assert digest(column) == digest(column.copy())
    others = [column + 1, column.astype(np.float32), column.reshape(2, 3), column[:5]]
    assert len({digest(column), *(digest(o) for o in others)}) == 5


@pytest.mark.parametrize(
    ("value", "text"), [(1234567.8, "1,234,568"), (0.012345, "0.0123"), (5.0, "5.00"), (0.0, "0"), (99.96, "100.0")]
)
def test_figures(value: float, text: str) -> None:
    assert figure(value) == text


def test_a_run_writes_json_and_counts_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(harness, "DIGESTS", tmp_path / "digests.json")
    monkeypatch.setattr(harness, "load_cases", lambda: None)
    monkeypatch.setattr(harness, "REGISTERED", {"one": made(5.0, "abc", at_least=1.0)})
    assert harness.run_all([]) == 1
    assert harness.run_all([], accept=True) == 0
    assert harness.run_all(["ONE"]) == 0
    written = sorted(p for p in tmp_path.glob("*.json") if p.name != "digests.json")
    rows = json.loads(written[-1].read_text())["benchmarks"]
    assert [(r["name"], r["value"], r["digest"], r["note"]) for r in rows] == [("one", 5.0, "abc", "met")]
