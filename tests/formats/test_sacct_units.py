"""Figures of a dump in another unit: run times that Start and End contradict, energies that no node draws."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.formats.refusal import refused
from wattqueue.errors import InputError
from wattqueue.formats.slurm.sacct import read_sacct
from wattqueue.formats.workload import Workload
from wattqueue.formats.workload_format import ReadOptions

T0 = 1_788_220_800
JOBS = 200


def dump(
    tmp_path: Path,
    elapsed: Callable[[int], float],
    joules: Callable[[float], float] = lambda found: found,
    **more: object,
) -> Workload:
    """Jobs of 2 to 13 hours on two nodes of 300 W; ``elapsed`` and ``joules`` are what the dump states."""
    rng = np.random.default_rng(1)
    span = rng.integers(60, 40_000, JOBS).tolist()
    rows = ["JobID|Submit|Start|End|ElapsedRaw|NNodes|ConsumedEnergyRaw"]
    for i, seconds in enumerate(span):
        start = T0 + 500 * i
        energy = joules(2 * 300.0 * seconds)
        rows.append(f"{i + 1}|{start - 60}|{start}|{start + seconds}|{elapsed(seconds):.10g}|2|{energy:.10g}")
    path = tmp_path / "dump.psv"
    path.write_text("\n".join(rows) + "\n")
    return read_sacct(path, ReadOptions(**more))  # type: ignore[arg-type]


UNITS: list[tuple[str, Callable[[int], float]]] = [
    ("minutes", lambda s: round(s / 60)),
    ("minutes", lambda s: s / 60),
    ("minutes", lambda s: s // 60),
    ("hours", lambda s: s / 3600),
    ("milliseconds", lambda s: s * 1000),
]


@pytest.mark.parametrize(("unit", "elapsed"), UNITS)
def test_run_times_in_another_unit_stop_the_import(tmp_path: Path, unit: str, elapsed: Callable[[int], float]) -> None:
    with refused(tmp_path / "dump.psv", f"Elapsed counts {unit}"):
        dump(tmp_path, elapsed)


def test_run_times_longer_than_end_minus_start_stop_the_import(tmp_path: Path) -> None:
    with refused(tmp_path / "dump.psv", "contradict End - Start", "suspended time cannot explain"):
        dump(tmp_path, lambda s: s * 1.7 + 500)


def test_a_few_contradictions_stop_nothing(tmp_path: Path) -> None:
    few = iter(range(JOBS))
    workload = dump(tmp_path, lambda s: s + 4000 if next(few) % 25 == 0 else s)  # 4 %
    assert len(workload.jobs) == JOBS


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_suspended_time_is_a_remark(tmp_path: Path, share: float) -> None:
    rng = np.random.default_rng(2)
    workload = dump(tmp_path, lambda s: s if rng.random() > share else float(max(1, s - 900 - int(rng.integers(0, s)))))
    assert "they were suspended" in " ".join(workload.notes)


def test_run_times_that_agree_are_no_remark(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    for close in (lambda s: s, lambda s: s + rng.integers(-30, 30), lambda s: s + 3600 * rng.integers(0, 2)):
        notes = " ".join(dump(tmp_path, close).notes)
        assert "suspended" not in notes
        assert "contradict" not in notes


@pytest.mark.parametrize(
    ("unit", "factor"), [("kJ (300 W", 1e3), ("Wh (300 W", 3.6e3), ("kWh (300 W", 3.6e6), ("mJ (300 W", 1e-3)]
)
def test_energies_in_another_unit_are_named(tmp_path: Path, unit: str, factor: float) -> None:
    workload = dump(tmp_path, lambda s: s, lambda joules: joules / factor)
    assert workload.jobs.mean_power_w is None or np.isnan(workload.jobs.mean_power_w).mean() > 0.9
    (said,) = [note for note in workload.notes if "would be plausible in" in note]
    assert unit in said


def test_stated_watts_of_a_node_leave_one_unit(tmp_path: Path) -> None:
    workload = dump(tmp_path, lambda s: s, lambda joules: joules / 3.6e3, node_watts=(150.0, 500.0))
    (said,) = [note for note in workload.notes if "would be plausible in" in note]
    assert "in Wh (300 W a node): sacct" in said


def test_energies_in_joules_are_no_remark_also_where_some_counters_failed(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    workload = dump(tmp_path, lambda s: s, lambda joules: joules if rng.random() < 0.6 else joules / 1e3)
    assert not [note for note in workload.notes if "would be plausible in" in note]
    assert [note for note in workload.notes if "energy counters left out" in note]


def test_nothing_is_said_of_energies_that_no_unit_explains(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    workload = dump(tmp_path, lambda s: s, lambda joules: joules * 10 ** rng.uniform(-12, -3))
    assert not [note for note in workload.notes if "would be plausible in" in note]


def test_a_machine_is_not_drafted_from_minutes(tmp_path: Path) -> None:
    """What was found: with ElapsedRaw in minutes the nodes of a machine of 25 kW became 50 times as hungry."""
    with pytest.raises(InputError) as caught:
        dump(tmp_path, lambda s: s / 60, node_watts=None)
    assert caught.value.hint is not None
    assert "ElapsedRaw" in caught.value.hint
