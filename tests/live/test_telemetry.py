"""Sources of power: counters that wrap, vanish or are forbidden; stamps that stand still; never a zero."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.live.slurm.accounting import parse
from wattqueue.live.telemetry.base import PowerSample, Reading, Telemetry
from wattqueue.live.telemetry.pm_counters import PmCounters
from wattqueue.live.telemetry.powercap import Powercap
from wattqueue.live.telemetry.prometheus import Prometheus, read_vector

RANGE_UJ = 262_143_328_850


@pytest.fixture
def tree() -> Iterator[Path]:
    """A powercap tree on tmpfs where there is one: two packages, memory, and a core zone that must not count."""
    shm = Path("/dev/shm")  # noqa: S108 - tmpfs, as the kernel's own tree is no disk either
    folder = Path(tempfile.mkdtemp(prefix="wattqueue-rapl-", dir=shm if shm.is_dir() else None))
    for zone, name in (
        ("intel-rapl:0", "package-0"),
        ("intel-rapl:1", "package-1"),
        ("intel-rapl:0:0", "dram"),
        ("intel-rapl:0:1", "core"),
    ):
        (folder / zone).mkdir()
        (folder / zone / "name").write_text(f"{name}\n")
        (folder / zone / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
        (folder / zone / "energy_uj").write_text("0\n")
    (folder / "intel-rapl").mkdir()
    yield folder
    shutil.rmtree(folder)


def put(tree: Path, *joules: float) -> None:
    for zone, value in zip(("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"), joules, strict=True):
        (tree / zone / "energy_uj").write_text(f"{round(value * 1e6) % RANGE_UJ}\n")


def test_watts_are_the_energy_of_all_counters_over_the_time(tree: Path) -> None:
    source = Powercap({"n1": tree}, other_w=20.0)
    assert source.read(100.0) == Reading({}, ())
    put(tree, 200.0, 150.0, 30.0)
    assert source.read(102.0) == Reading({"n1": PowerSample(210.0, 102.0, "powercap")}, ())


@given(st.floats(1.0, 900.0), st.floats(1.0, 900.0), st.integers(0, RANGE_UJ - 1), st.floats(0.5, 30.0))
def test_a_counter_that_wraps_loses_nothing(first_w: float, second_w: float, start_uj: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for k in range(2):
            (root / f"intel-rapl:{k}").mkdir()
            (root / f"intel-rapl:{k}" / "name").write_text(f"package-{k}")
            (root / f"intel-rapl:{k}" / "max_energy_range_uj").write_text(str(RANGE_UJ))
            (root / f"intel-rapl:{k}" / "energy_uj").write_text(str(start_uj))
        source = Powercap({"n1": root})
        source.read(0.0)
        for k, watts in enumerate((first_w, second_w)):
            value = (start_uj + round(watts * seconds * 1e6)) % RANGE_UJ
            (root / f"intel-rapl:{k}" / "energy_uj").write_text(str(value))
        sample = source.read(seconds).samples["n1"]
    assert sample.power_w == pytest.approx(first_w + second_w, rel=1e-5)


def test_after_a_gap_in_which_it_may_have_wrapped_twice_nothing_is_claimed(tree: Path) -> None:
    source = Powercap({"n1": tree})
    source.read(0.0)
    put(tree, 5.0, 5.0, 5.0)
    reading = source.read(1000.0)
    assert reading.samples == {}
    assert "wrapped" in reading.problems[0]


def test_a_zone_that_vanishes_takes_its_node_with_it(tree: Path) -> None:
    source = Powercap({"n1": tree})
    source.read(0.0)
    shutil.rmtree(tree / "intel-rapl:1")
    put_left = tree / "intel-rapl:0" / "energy_uj"
    put_left.write_text("300000000\n")
    reading = source.read(1.0)
    assert reading.samples == {}
    assert "intel-rapl:1" in reading.problems[0]
    put_left.write_text("600000000\n")
    assert source.read(2.0).samples["n1"].power_w == 300.0, "what is left is a node of its own from then on"


def test_a_tree_that_is_gone_or_empty_is_a_problem_in_words(tree: Path, tmp_path: Path) -> None:
    reading = Powercap({"gone": tmp_path / "no", "empty": tmp_path}).read(0.0)
    assert reading.samples == {}
    assert len(reading.problems) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user who may not read the counters")
def test_missing_permission_is_told_with_its_cure(tree: Path) -> None:
    tree.chmod(0o755)
    (tree / "intel-rapl:0" / "energy_uj").chmod(0o400)
    os.seteuid(65534)
    try:
        reading = Powercap({"n1": tree}).read(0.0)
    finally:
        os.seteuid(0)
    assert reading.samples == {}
    assert "may not read" in reading.problems[0]


def test_psys_counts_the_platform_once(tree: Path) -> None:
    zone = tree / "intel-rapl:2"
    shutil.copytree(tree / "intel-rapl:0", zone)
    (zone / "name").write_text("psys\n")
    source = Powercap({"n1": tree})
    source.read(0.0)
    put(tree, 100.0, 100.0, 100.0)
    (zone / "energy_uj").write_text("350000000\n")
    assert source.read(1.0).samples["n1"].power_w == 350.0


def test_pm_counters_are_as_old_as_their_stamp_stands_still(tmp_path: Path) -> None:
    source = PmCounters({"n1": tmp_path})
    (tmp_path / "power").write_text("300 W 111 us\n")
    assert source.read(10.0).samples["n1"] == PowerSample(300.0, 10.0, "pm_counters")
    assert source.read(15.0).samples["n1"].taken_s == 10.0
    (tmp_path / "power").write_text("310 W 222 us\n")
    assert source.read(16.0).samples["n1"] == PowerSample(310.0, 16.0, "pm_counters")


@pytest.mark.parametrize("text", ["", "W", "-5 W 1 us", "nan W 1 us", "300 J 1 us", "300 W 1"])
def test_pm_counters_that_hold_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "power").write_text(text)
    reading = PmCounters({"n1": tmp_path, "n2": tmp_path / "gone"}).read(0.0)
    assert reading.samples == {}
    assert len(reading.problems) == 2


class Given:
    """A source that gives what the test says."""

    def __init__(self, name: str, samples: dict[str, PowerSample]) -> None:
        self.name, self.samples, self.resolution_w = name, samples, 1.0

    def read(self, now_s: float) -> Reading:
        return Reading(self.samples, ())


@pytest.mark.parametrize(
    ("power_w", "taken_s", "label", "counts_w"),
    [
        (210.0, 100.0, "measured", 210.0),
        (210.0, 95.0, "measured", 210.0),
        (210.0, 89.0, "stale", 400.0),
        (0.0, 100.0, "missing", 400.0),
        (-3.0, 100.0, "missing", 400.0),
        (math.nan, 100.0, "missing", 400.0),
        (math.inf, 100.0, "missing", 400.0),
        (900.0, 100.0, "missing", 400.0),
        (210.0, 120.0, "stale", 400.0),
    ],
)
def test_what_is_not_fresh_and_plausible_counts_as_the_maximum(
    power_w: float, taken_s: float, label: str, counts_w: float
) -> None:
    telemetry = Telemetry([Given("a", {"n1": PowerSample(power_w, taken_s, "a")})])
    telemetry.read(100.0)
    seen = telemetry.node("n1", 400.0, 100.0)
    assert (seen.label, seen.power_w) == (label, counts_w)
    assert telemetry.node("n2", 400.0, 100.0).label == "missing"


def test_the_first_source_with_a_fresh_sample_is_believed() -> None:
    old, new = PowerSample(100.0, 50.0, "a"), PowerSample(200.0, 100.0, "b")
    telemetry = Telemetry([Given("a", {"n1": old}), Given("b", {"n1": new})])
    telemetry.read(100.0)
    assert telemetry.node("n1", 400.0, 100.0).source == "b"


def test_a_computed_value_without_its_own_time_is_not_believed() -> None:
    reading = Prometheus("http://127.0.0.1:1", "sum(rate(x[10s]))").read(0.0)
    assert "fresh_query" in reading.problems[0]


def test_a_prometheus_that_does_not_answer_is_a_problem_in_words() -> None:
    reading = Prometheus("http://127.0.0.1:1", "x", timeout_s=0.2).read(0.0)
    assert reading.samples == {}
    assert "ConnectError" in reading.problems[0]


@pytest.mark.parametrize(
    "body", [{}, [], "x", {"status": "error"}, {"status": "success", "data": {"resultType": "matrix"}}]
)
def test_other_answers_than_a_vector_are_refused(body: object) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is for the log; that it is ours is checked
        read_vector(body, "instance")
    assert str(body)[:20] in str(caught.value)


@pytest.mark.parametrize(
    ("energy", "mean_w"),
    [("3600", 150.0), ("0", None), ("", None), (str(2**64 - 2), None), (str(2**32 - 2), None), ("4.5K", "unreadable")],
)
def test_no_energy_in_slurms_accounting_is_no_measurement(energy: str, mean_w: float | str | None) -> None:
    job = parse(f"7|100|110|122|2|{energy}|COMPLETED|1000|all|p1", "slurmdbd")
    if mean_w == "unreadable":
        assert job is None
        return
    assert job is not None
    assert math.isnan(job.mean_node_w) if mean_w is None else job.mean_node_w == mean_w


@pytest.mark.parametrize(
    "line", ["", "7|1|2", "7|100|110|Unknown|2|5|RUNNING|0|a|p", "7|100|None|122|0||CANCELLED by 0|0|a|p"]
)
def test_jobs_that_have_not_run_are_left_out(line: str) -> None:
    assert parse(line, "slurmdbd") is None
