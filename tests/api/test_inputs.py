"""What the functions of the package take: frames, the machine of a trace; their errors speak of arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import wattqueue as wq
from wattqueue.errors import InputError, WattQueueError

pd: Any = pytest.importorskip("pandas")

COLUMNS = {
    "submit_s": [0.0, 5.0, 9.0],
    "nodes": [1, 2, 2],
    "runtime_s": [60.0, 70.0, 80.0],
    "walltime_s": [100.0, None, 90.0],
    "user": ["ada", None, "bob"],
    "mean_power_w": [150.0, 160.0, None],
    "memory_gb": [None, 4.0, None],
}
FRAMES: list[Callable[[dict[str, Any]], Any]] = [
    pl.DataFrame,
    pl.LazyFrame,
    pd.DataFrame,
    lambda columns: pd.DataFrame(columns).convert_dtypes(),
    lambda columns: pd.DataFrame(columns, index=[7, 8, 9]),
]


@pytest.mark.parametrize("make", FRAMES)
def test_a_frame_gives_the_run_of_its_file(tmp_path: Path, make: Callable[[dict[str, Any]], Any]) -> None:
    path = tmp_path / "jobs.csv"
    pl.DataFrame(COLUMNS).write_csv(path)
    machine = {"nodes": 2, "node_watts": "95:190", "cap": "90%"}
    by_file, by_frame = (wq.simulate(jobs, **machine) for jobs in (path, make(COLUMNS)))  # type: ignore[arg-type]
    assert by_frame.jobs.equals(by_file.jobs)
    assert by_frame.metrics == by_file.metrics


@pytest.mark.parametrize("make", FRAMES[:3])
@pytest.mark.parametrize(
    ("column", "values"), [("runtime_s", [60.0, -1.0, 5.0]), ("nodes", ["a", "b", "c"]), ("runtim_s", [1.0, 1.0, 1.0])]
)
def test_a_wrong_frame_is_refused_by_its_column(
    make: Callable[[dict[str, Any]], Any], column: str, values: list[Any]
) -> None:
    with pytest.raises(InputError) as error:
        wq.simulate(make({**COLUMNS, column: values}), nodes=2)
    assert column in str(error.value)
    assert "data frame" in str(error.value.where)


def swf(folder: Path, *header: str) -> Path:
    path = folder / "t.swf"
    rows = [f"{k} {k} -1 60 2 -1 -1 2 100 -1 1 1 1 1 1 -1 -1 -1" for k in range(1, 4)]
    path.write_text("\n".join([*header, *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("header", "procs_per_node", "units"),
    [
        (("; MaxNodes: 4", "; MaxProcs: 8"), 1, 8),
        (("; MaxNodes: 4", "; MaxProcs: 8"), 2, 4),
        (("; MaxNodes: 6",), 1, 6),
        (("; MaxProcs: 8 (all of them)",), 1, 8),
        (("; MaxProcs: many", "; MaxNodes: 5"), 1, 5),
    ],
)
def test_a_trace_gives_the_machine_where_none_is_named(
    tmp_path: Path, header: tuple[str, ...], procs_per_node: int, units: int
) -> None:
    table = wq.read_jobs(swf(tmp_path, *header), procs_per_node=procs_per_node)
    run = wq.simulate(table)
    assert run.machine.units == units
    assert run.record.facts["task"]["nodes"] == units
    assert wq.simulate(table, nodes=3).machine.units == 3


def test_a_trace_that_does_not_say_needs_a_machine(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        wq.simulate(swf(tmp_path))
    assert error.value.where == "machine"


WRONG: list[Callable[[Path], object]] = [
    wq.simulate,
    lambda trace: wq.simulate(trace, machine="kth-sp2", nodes=4),
    lambda trace: wq.simulate(trace, machine="kth-sp2", node_watts="95:190"),
    lambda trace: wq.simulate(trace, nodes=0),
    lambda trace: wq.simulate(trace, nodes=2, node_watts="95"),
    lambda trace: wq.simulate(trace, nodes=2, cap="80%"),
    lambda trace: wq.simulate(trace, nodes=1),
    lambda trace: wq.whatif(trace, nodes=4),
    lambda trace: wq.whatif(trace, nodes=4, node_watts="95:190", risk="700%"),
    wq.predict,
]


@pytest.mark.parametrize("wrong", WRONG)
def test_errors_speak_of_arguments_not_of_flags(tmp_path: Path, wrong: Callable[[Path], object]) -> None:
    with pytest.raises(WattQueueError) as error:
        wrong(swf(tmp_path))
    assert "--" not in str(error.value)


def test_two_machines_are_not_both_taken(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        wq.simulate(swf(tmp_path), machine="kth-sp2", nodes=4)
    assert "both" in str(error.value)


def test_gaps_of_a_frame_are_those_of_the_table() -> None:
    run = wq.simulate(pd.DataFrame(COLUMNS), nodes=2, node_watts="95:190")
    assert np.isnan(run.record.jobs.extra["memory_gb"]).tolist() == [True, False, True]
