"""Misspelt methods, and ``wattqueue check`` on files that hide their parts."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from wattqueue.checks.suite import misspelt
from wattqueue.cli import check
from wattqueue.errors import PolicyError
from wattqueue.parts.order.fcfs import Fcfs
from wattqueue.policy.interfaces import AXES, CORRECTIONS, METHODS
from wattqueue.policy.registry import part_class, part_names

HIDDEN = """
class Cheap:
    asked, machine_figures = "once", True
    def predct(self, jobs, machine):
        return None

class Helper:
    def total(self, jobs):
        return len(jobs)

class Idle:
    period_s, events = 600.0, frozenset()
    def act(self, view):
        return []
"""


def test_every_axis_has_its_interface() -> None:
    assert set(METHODS) == {*AXES, CORRECTIONS}


def method(*_: object) -> None:
    """Any method."""


@pytest.mark.parametrize("name", ["predct", "Predict", "predicts", "entry_es", "schedul", "windw", "marginw", "acts"])
def test_a_class_that_is_nearly_a_part(name: str) -> None:
    found = type("Mine", (), {name: method})
    assert [slip for slip, _ in misspelt(found)] == [name]


@pytest.mark.parametrize("name", ["total", "plot", "predictions_made_so_far", "_predct"])
def test_other_names_are_not_suspected(name: str) -> None:
    assert list(misspelt(type("Mine", (), {name: method}))) == []


def test_further_methods_of_a_part() -> None:
    assert list(misspelt(type("Mine", (Fcfs,), {"rerrank": method}))) == [("rerrank", "rerank")]
    assert list(misspelt(type("Mine", (Fcfs,), {"rerank": method}))) == []


@pytest.mark.parametrize("axis", METHODS)
def test_our_own_parts_are_spelt_well(axis: str) -> None:
    assert [slip for name in part_names(axis) for slip in misspelt(part_class(axis, name))] == []


def test_a_misspelt_part_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "parts.py"
    path.write_text(HIDDEN)
    with pytest.raises(typer.Exit) as left:
        check.run(str(path))
    assert left.value.exit_code == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "predct" in line and "predict()" in line and line.startswith("FAILED")]
    assert [line for line in lines if line.startswith("skipped") and "Helper" in line]
    assert [line for line in lines if line.startswith("ok") and "Idle as controls" in line]


@pytest.mark.parametrize(
    "text",
    ["import sys\nsys.exit(0)\n", "class Helper:\n    pass\n", "x = 1\n", "def broken(:\n", "raise ValueError('no')\n"],
)
def test_a_file_without_parts_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "parts.py"
    path.write_text(text)
    with pytest.raises(PolicyError) as caught:
        check.run(str(path))
    assert str(caught.value.where) == str(path)


def test_a_part_that_exits_has_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``sys.exit(0)`` inside a part must not end the checks with success."""
    path = tmp_path / "parts.py"
    path.write_text(HIDDEN.replace("        return []", "        import sys; sys.exit(0)"))
    with pytest.raises(typer.Exit) as left:
        check.run(f"{path}:Idle")
    assert left.value.exit_code == 1
    assert "raised SystemExit" in capsys.readouterr().out
