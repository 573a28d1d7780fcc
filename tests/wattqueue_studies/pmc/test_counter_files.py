"""perf stat, mpstat, CSV of readings, tables of activity: small files by hand, and damaged ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue.formats.unit_factors import read_unit_factors, write_unit_factors
from wattqueue_studies.pmc.activity import ActivityTrace, SocketRun, read_activity, write_activity
from wattqueue_studies.pmc.readings import read_counters_csv, read_mpstat, read_perf_stat
from wattqueue_studies.pmc.recording import cpu_numbers, read_recording

PERF = """# started on Mon Nov 16 10:00:00 2026

     1.000105,S0,16,48000000000,,cycles,16000000000,100.00,,
     1.000105,S0,16,96000000000,,uops_retired.all,8000000000,50.00,2.00,insn per cycle
     1.000105,S0,1,101.5,Joules,power/energy-pkg/,1000000000,100.00,,
     1.000105,S1,16,<not counted>,,cycles,0,100.00,,
     1.000105,S1,16,5,,uops_retired.all,16000000000,100.00,,
     2.000231,S0,16,47000000000,,cycles,16000000000,100.00,,
     2.000231,S0,16,94000000000,,uops_retired.all,16000000000,100.00,,
     2.000231,S0,1,99.0,Joules,power/energy-pkg/,1000000000,100.00,,
"""
MPSTAT = """Linux 3.10.0 (quartz1) \t11/16/2026 \t_x86_64_\t(4 CPU)

10:00:00 AM  CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
10:00:01 AM  all   62.50    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00   37.50
10:00:01 AM    0  100.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00
10:00:01 AM    1  100.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00
10:00:01 AM    2   50.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00   50.00
10:00:01 AM    3    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00  100.00

10:00:01 AM  CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
10:00:02 AM  all   25.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00   75.00
10:00:02 AM    0   75.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00   25.00
10:00:02 AM    1    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00  100.00
10:00:02 AM    2    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00  100.00
10:00:02 AM    3   25.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00   75.00

Average:     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
Average:       0   87.50    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00   12.50
"""


def file(tmp_path: Path, text: str, name: str = "f.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_perf_by_socket_and_interval(tmp_path: Path) -> None:
    found = read_perf_stat(file(tmp_path, PERF))
    assert sorted(found) == [0, 1]
    first = found[0]
    assert first.time_s.tolist() == [1.000105, 2.000231]
    assert first.counts["uops_retired.all"].tolist() == [9.6e10, 9.4e10]
    assert first.multiplexed == 0.5
    assert np.isnan(found[1].counts["cycles"]).all()


def test_perf_with_semicolons_without_sockets(tmp_path: Path) -> None:
    text = "1.0;7;;cpu/event=0x3c,umask=0/;1000000000;100.00;;\n1.0;8;;branches;1000000000;100.00;;\n"
    found = read_perf_stat(file(tmp_path, text))[0]
    assert {e: c.tolist() for e, c in found.counts.items()} == {"cpu/event=0x3c,umask=0/": [7.0], "branches": [8.0]}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("nonsense\n", 1),
        ("1.0,CPU0,5,,cycles,1,100.00,,\n", 1),
        ("1.0,S0-C3,2,5,,cycles,1,100.00,,\n", 1),
        ("1.0,5,,cycles,1,100.00,,\n1.0,6,,cycles,1,100.00,,\n", 2),
        ("2.0,5,,cycles,1,100.00,,\n1.0,6,,cycles,1,100.00,,\n", 2),
        ("1.0,5,,cycles,1,abc,,\n", 1),
        ("500,,cycles,2000000000,100.00,,\n", 1),
        ("# only a comment\n", 0),
    ],
)
def test_perf_lines_that_cannot_be_used(tmp_path: Path, text: str, line: int) -> None:
    path = file(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_perf_stat(path)
    assert str(caught.value.where) == (f"{path}:{line}" if line else str(path))


def test_mpstat_counts_what_is_not_idle(tmp_path: Path) -> None:
    path = file(tmp_path, MPSTAT)
    np.testing.assert_allclose(read_mpstat(path), [2.5, 1.0])
    np.testing.assert_allclose(read_mpstat(path, {0, 1}), [2.0, 0.75])
    np.testing.assert_allclose(read_mpstat(file(tmp_path, MPSTAT.replace(".", ",")), {2}), [0.5, 0.0])
    with pytest.raises(InputError):
        read_mpstat(path, {9})
    with pytest.raises(InputError):
        read_mpstat(file(tmp_path, "nothing\n"))
    with pytest.raises(InputError) as caught:
        read_mpstat(file(tmp_path, MPSTAT.replace("100.00\n", "-3\n", 1)))
    assert str(caught.value.where).endswith(":8")


def test_readings_that_wrap(tmp_path: Path) -> None:
    text = f"time_s,cycles,active_cores\n0,{2**48 - 10},0\n1,90,15\n2,190,14\n"
    found = read_counters_csv(file(tmp_path, text))[0]
    assert found.counters.counts["cycles"].tolist() == [100.0, 100.0]
    assert found.counters.time_s.tolist() == [1.0, 2.0]
    assert found.active_cores is not None
    assert found.active_cores.tolist() == [15.0, 14.0]
    plain = read_counters_csv(file(tmp_path, "time_s,socket,cycles\n1,0,5\n1,1,6\n"), cumulative=False)
    assert plain[1].counters.counts["cycles"].tolist() == [6.0]


@pytest.mark.parametrize(
    "text",
    [
        "time_s\n1\n",
        "time_s,cycles\n1,5\n",
        "time_s,cycles\n1,500\n2,5\n",
        "time_s,cycles\n2,5\n1,6\n",
        "time_s,cycles\n1,5\n2,\n",
        "time_s,cycles\n1,-5\n2,3\n",
        "time_s,cycles\n1,5\n2,x\n",
    ],
)
def test_readings_that_cannot_be_used(tmp_path: Path, text: str) -> None:
    path = file(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_counters_csv(path)
    assert str(caught.value.where).startswith(str(path))


def test_a_recording_joins_perf_and_mpstat(tmp_path: Path) -> None:
    perf, mpstat = file(tmp_path, PERF, "perf.csv"), file(tmp_path, MPSTAT, "mpstat.txt")
    found = read_recording(perf, 0, mpstat, "0-1")
    assert found.active_cores.tolist() == [2.0, 0.75]
    np.testing.assert_allclose(found.watts, [101.5 / 1.000105, 99.0 / 1.000126], rtol=1e-6)
    with pytest.raises(InputError):
        read_recording(perf, 0)
    with pytest.raises(InputError):
        read_recording(perf, 4, mpstat)
    assert cpu_numbers("0-2,8") == {0, 1, 2, 8}
    with pytest.raises(InputError):
        cpu_numbers("0-x")


def test_a_table_of_activity_comes_back(tmp_path: Path) -> None:
    level = np.arange(18.0).reshape(2, 9) / 7
    runs = [
        SocketRun("a", ActivityTrace("bt", np.array([1.0, 2.0]), level, 3), np.array([90.0, np.nan])),
        SocketRun("b", ActivityTrace("bt", np.array([1.0]), level[:1]), np.array([80.5])),
    ]
    path = tmp_path / "activity.csv"
    write_activity(path, runs)
    again = read_activity(path)
    assert [(r.socket, r.trace.name, r.trace.process) for r in again] == [("a", "bt", 3), ("b", "bt", 0)]
    np.testing.assert_array_equal(again[0].trace.level, level)
    np.testing.assert_array_equal(again[0].watts, [90.0, np.nan])


def test_damaged_tables_of_activity_are_refused(tmp_path: Path) -> None:
    good = "app,process,socket,time_s,active_cores,fetch,branch,alu,fp,l1,l2,l3,memory,watts\n"
    for row, place in (
        ("x,0,s,1,1,1,1,1,1,1,1,1,-1,5\n", ":2"), (",0,s,1,1,1,1,1,1,1,1,1,1,5\n", ":2"),
        ("x,0,s,1,1,1,1,1,1,1,1,1,1e300,5\n", ":2"), ("x,0,s,1,1,1,1,1,1,1,1,1,1,1e300\n", ":2"),
        ("x,0,s,1,1,1,1,1,1,1,1,1,1,0\n", ":2"),
    ):  # fmt: skip
        with pytest.raises(InputError) as caught:
            read_activity(file(tmp_path, good + row))
        assert str(caught.value.where).endswith(place)
    with pytest.raises(InputError):
        read_activity(file(tmp_path, "app,watts\nx,5\n"))


def test_unit_factors_are_averaged_and_come_back(tmp_path: Path) -> None:
    path = file(tmp_path, "app,unit,watts\nx,u1,100\nx,u1,110\nx,u2,95\ny,u1,50\n")
    table = read_unit_factors(path)
    assert (table.apps, table.units) == (("x", "y"), ("u1", "u2"))
    np.testing.assert_allclose(table.base_w, [100.0, 50.0])
    np.testing.assert_allclose(table.factor, [[1.05, 0.95], [1.0, np.nan]])
    write_unit_factors(tmp_path / "again.csv", table)
    again = read_unit_factors(tmp_path / "again.csv")
    np.testing.assert_allclose(again.factor, table.factor)
    for bad in ("-5", "0", ""):
        with pytest.raises(InputError) as caught:
            read_unit_factors(file(tmp_path, f"app,unit,watts\nx,u1,100\nx,u2,{bad}\n"))
        assert str(caught.value.where).endswith(":3")


@pytest.mark.parametrize("text", ["0-99999999", "7-3", "²", "٣", "1" * 5_000, "0-", "-3", "1,,2"])
def test_lists_of_cpus_that_no_machine_has_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        cpu_numbers(text)
