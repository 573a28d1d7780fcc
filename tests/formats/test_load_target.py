"""Files of load targets: round trip, and errors with file and line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wattqueue.errors import InputError, MachineError
from wattqueue.formats.load_target import read_load_targets, write_load_targets
from wattqueue.model.load_target import OF_MAXIMUM, LoadTarget, LoadTargets
from wattqueue.model.machine import plain_machine

MACHINE = plain_machine(10, 50.0, 150.0)
HEADER = "start_s,end_s,limit,unit,notice_s,ramp_w_per_s,correlation_id\n"


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_what_is_written_reads_back(tmp_path: Path, ending: str) -> None:
    rows = (
        LoadTarget(0.1, 10.0, 900.0, correlation_id="a, b"),
        LoadTarget(20.0, 30.25, 70.0, OF_MAXIMUM, notice_s=np.inf, ramp_w_per_s=2.5),
    )
    path = tmp_path / f"targets.{ending}"
    write_load_targets(path, LoadTargets.of(*rows))
    found = read_load_targets(path, MACHINE)
    assert tuple(found.row(k) for k in range(len(found))) == rows


def test_rows_may_be_in_any_order_and_gaps_take_their_defaults(tmp_path: Path) -> None:
    path = tmp_path / "targets.csv"
    path.write_text(f"{HEADER}50,60,900,W,,,\n0,10,80,% of maximum,5,1000,x\n", encoding="utf-8")
    found = read_load_targets(path)
    assert found.start_s.tolist() == [0.0, 50.0]
    assert found.row(1) == LoadTarget(50.0, 60.0, 900.0)


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ("50,60,nine,W,,,", 3),
        ("50,60,,W,,,", 3),
        ("50,40,900,W,,,", 3),
        ("5,40,900,W,,,", 3),  # overlaps the one of line 2
        ("50,60,900,kW,,,", 3),
        ("50,60,-900,W,,,", 3),
        ("50,60,900,W,-1,,", 3),
        ("50,60,900,W,,,,", 3),
        ("50,60,900", 3),
    ],
)
def test_a_wrong_row_is_refused_with_its_line(tmp_path: Path, row: str, line: int) -> None:
    path = tmp_path / "targets.csv"
    path.write_text(f"{HEADER}0,10,900,W,,,\n{row}\n", encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_load_targets(path)
    assert refused.value.where == f"{path}:{line}"
    assert refused.value.hint


def test_a_target_below_idle_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "targets.csv"
    path.write_text(f"# from the contract\n{HEADER}50,60,900,W,,,\n0,10,499,W,,,\n", encoding="utf-8")
    with pytest.raises(MachineError) as refused:
        read_load_targets(path, MACHINE)
    assert refused.value.where == f"{path}:4"


@pytest.mark.parametrize(
    "header", ["start_s,end_s,limit", "start_s,end_s,watts,unit", "start_s,start_s,end_s,limit,unit"]
)
def test_a_wrong_header_is_refused(tmp_path: Path, header: str) -> None:
    path = tmp_path / "targets.csv"
    path.write_text(header + "\n", encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_load_targets(path)
    assert refused.value.where == f"{path}:1"


@pytest.mark.parametrize("text", ["", HEADER])
def test_a_file_without_a_target_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "targets.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        read_load_targets(path)
