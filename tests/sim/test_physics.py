"""Physics from files: known answers by hand, what is refused, what a run says of its sources (rule 21)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue.formats.machine.file import read_machine
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.physics import Physics
from wattqueue.model.profiles import PowerProfiles
from wattqueue.parts.actions import Action, SetDeviceLimits
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.runs.physics import physics_of
from wattqueue.runs.task import Task
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.physics import ABOVE_EXPONENTS, FROM_TABLES, UNUSED, drawn_error, true_figures
from wattqueue.sim.profiles import with_profiles

TWO = Machine(
    "two",
    (
        Partition("p1", 4, frequencies_hz=(2.7e9, 1.2e9), idle_w=50.0, max_w=491.0),
        Partition("p2", 4, frequencies_hz=(3.1e9, 1.2e9), idle_w=40.0, max_w=497.0),
    ),
)
CELLS = """app,partition,frequency_hz,watts,time_s
STREAM,p1,2.7e9,381,107.55
STREAM,p2,3.1e9,365,81.43
STREAM,p2,1.2e9,240,82.57
DGEMM,p1,,491,47.4
"""
"""Of Table 1 of paper 1; the watts at 1.2 GHz and the time there (0.06 s for 0.1 GHz) are ours."""


def physics(
    folder: Path, keys: str = 'reference = "p1"\ntable = "cells.csv"\n', machine: Machine = TWO, **more: Any
) -> Physics:
    """What a physics file in ``folder`` states; ``more`` are the texts of files beside it, by name without ending."""
    for name, text in {"cells": CELLS, **more}.items():
        (folder / f"{name}.csv").write_text(text)
    (folder / "physics.toml").write_text(keys)
    found = physics_of(Task("", physics=str(folder / "physics.toml")), machine)
    assert found is not None
    return found


def jobs_of(app: list[str], **more: Any) -> Jobs:
    n = len(app)
    stated = {"mean_power_w": np.full(n, 300.0), "partition": np.full(n, "p2"), **more}
    clock = {"frequency_min_hz": np.full(n, 1.2e9), "frequency_max_hz": np.full(n, 1.2e9)}
    extra = {"ran_partition": np.full(n, "p1"), **clock, **stated.pop("extra", {})}
    return Jobs.build(1e4 * np.arange(n), np.ones(n), np.full(n, 1_000.0), app=app, extra=extra, **stated)


def ran(jobs: Jobs, actual: Physics | None, machine: Machine = TWO, **more: Any) -> Run:
    """Each job alone on p2 at 1.2 GHz, by its own window of frequencies."""
    return simulate(jobs, machine, load_policy("easy", frequency="frequency-window", **more), actual=actual)


def test_a_memory_bound_job_on_another_partition_at_the_lowest_clock(tmp_path: Path) -> None:
    run = ran(jobs_of(["STREAM"]), physics(tmp_path))
    assert run.schedule.end_s[0] == pytest.approx(1_000.0 * 82.57 / 107.55, abs=1e-6)
    assert round(float(run.schedule.end_s[0]), 0) == 768.0
    watts = 300.0 * 240.0 / 381.0
    assert run.schedule.energy_j[0] == pytest.approx(watts * 1_000.0 * 82.57 / 107.55, rel=1e-9)
    # By the machine's exponents alone the same job takes 2.58 times its run time there.
    assert ran(jobs_of(["STREAM"]), None).schedule.end_s[0] == pytest.approx(2_583.333333)


def test_files_that_say_nothing_of_any_job_are_named(tmp_path: Path) -> None:
    assert ran(jobs_of(["stream"]), physics(tmp_path)).notes == {
        "jobs with true watts and times by the machine's exponents": 1,
        UNUSED: 2,
    }
    assert UNUSED not in ran(jobs_of(["stream", "STREAM"]), physics(tmp_path)).notes


def test_what_no_file_states_follows_the_exponents(tmp_path: Path) -> None:
    """DGEMM has one cell: p2 has the figure of p1, and the machine's exponents go on from it. Others are as ever."""
    jobs = jobs_of(["DGEMM", "lu", ""])
    run, plain = ran(jobs, physics(tmp_path)), ran(jobs, None)
    np.testing.assert_array_equal(run.schedule.end_s[1:], plain.schedule.end_s[1:])
    np.testing.assert_array_equal(run.schedule.energy_j[1:], plain.schedule.energy_j[1:])
    assert run.schedule.end_s[0] == pytest.approx(1_000.0 * 3.1 / 1.2, abs=1e-6)
    at_lowest = 40.0 + (491.0 - 40.0) * (1.2 / 3.1) ** 2  # the table's watts, carried over, then relative to 491
    drawn = run.schedule.energy_j[0] / run.schedule.end_s[0]
    assert drawn == pytest.approx(300.0 * at_lowest / 491.0)


@pytest.mark.parametrize("stated", ["column", "section"])
def test_jobs_may_have_run_at_another_clock(tmp_path: Path, stated: str) -> None:
    """Recorded on p2 at 1.2 GHz, the job takes there what it took, and draws what it drew."""
    where = {"ran_partition": np.full(2, "p2"), "ran_frequency_hz": np.full(2, 1.2e9)}
    keys = (
        'table = "cells.csv"\n'
        if stated == "column"
        else 'table = "cells.csv"\nreference = "p2"\nreference_hz = 1.2e9\n'
    )
    watts = np.array([300.0, 100.0])
    extra = where if stated == "column" else {"ran_partition": np.full(2, "")}
    jobs = jobs_of(["STREAM", "lu"], mean_power_w=watts, extra=extra)
    run = ran(jobs, physics(tmp_path, keys))
    np.testing.assert_allclose(run.schedule.end_s - run.schedule.start_s, 1_000.0, atol=1e-6)
    np.testing.assert_allclose(run.schedule.energy_j, watts * 1_000.0, rtol=1e-9)
    fast = replace(
        jobs, extra={**jobs.extra, "frequency_min_hz": np.full(2, 3.1e9), "frequency_max_hz": np.full(2, 3.1e9)}
    )
    again = ran(fast, physics(tmp_path, keys))
    took = again.schedule.end_s - again.schedule.start_s
    np.testing.assert_allclose(took, [1_000.0 * 81.43 / 82.57, 1_000.0 * 1.2 / 3.1], atol=1e-6)
    drew = [300.0 * 365.0 / 240.0, 40.0 + 60.0 * (3.1 / 1.2) ** 2]
    np.testing.assert_allclose(again.schedule.energy_j / took, drew, rtol=1e-6)
    hot = replace(jobs, mean_power_w=np.array([300.0, 120.0]))
    with pytest.raises(InputError, match=r"lu on p2 at 3\.1 GHz draws 573\.889 W"):
        ran(hot, physics(tmp_path, keys))


def test_watts_above_the_maximum_of_a_clock_are_counted(tmp_path: Path) -> None:
    """STREAM on p2 at 1.2 GHz draws 240 W by its table; of the 497 W of a unit the exponents leave 108 there."""
    most = 40.0 + 457.0 * (1.2 / 3.1) ** 2
    assert most < 300.0 * 240.0 / 381.0 < 240.0
    assert ran(jobs_of(["STREAM"]), physics(tmp_path)).sources[ABOVE_EXPONENTS] == 1
    low = jobs_of(["STREAM"], mean_power_w=np.array([150.0]))
    assert ABOVE_EXPONENTS not in ran(low, physics(tmp_path)).sources


UNITS = "app,unit,watts,time_s\n" + "".join(
    f"{app},{unit},{watts},{seconds}\n"
    for app, slow in (("cg", 1.0), ("ft", 2.0))
    for unit, (watts, seconds) in enumerate([(130, 10 * slow), (95, 11 * slow), (60, 12 * slow)])
)
CHIPS = Machine("chips", (Partition("batch", 3, max_w=150.0),))


@pytest.mark.parametrize(("placement", "unit"), [("lowest", 0), ("least-watts", 2)])
def test_jobs_draw_what_the_unit_draws_that_they_get(tmp_path: Path, placement: str, unit: int) -> None:
    """Three jobs, one after the other: each draws 130, 95 or 60 W by where it is put, and takes as long as the unit."""
    jobs = Jobs.build([0.0, 2e3, 4e3], [1, 1, 1], [1_000.0] * 3, app=["cg", "ft", "cg"])
    found = physics(tmp_path, 'units = "units.csv"\n', CHIPS, units=UNITS)
    assert found.units is not None
    table = {"part": "unit-watts", "table": found.units.watts}
    run = simulate(jobs, CHIPS, load_policy("easy", estimator=table, placement=placement), actual=found)
    took = 1_000.0 * (10 + unit) / 11
    np.testing.assert_allclose(run.schedule.end_s - run.schedule.start_s, took, atol=1e-6)
    np.testing.assert_allclose(run.schedule.energy_j, [130.0, 95.0, 60.0][unit] * took, rtol=1e-8)
    assert run.sources == {
        "jobs with true watts and times by units.csv": 3,
        "jobs with true factors of the units on which they ran": 3,
        FROM_TABLES: 3,
    }
    assert run.notes.items() >= run.sources.items()


def test_the_trace_says_how_much_the_files_say_how_they_differ(tmp_path: Path) -> None:
    """A job of 190 W on average: its units are as far apart as the table's, 130 : 95 : 60."""
    jobs = Jobs.build([0.0], [3], [1_000.0], app=["cg"], mean_power_w=[47.5])
    text = "app,unit,watts\ncg,0,130\ncg,1,95\ncg,2,60\n"
    figures = true_figures(physics(tmp_path, 'units = "units.csv"\n', CHIPS, units=text), jobs, CHIPS)
    assert figures.actual.power_w.tolist() == [[47.5]]
    assert figures.actual.unit_factor is not None
    np.testing.assert_allclose(figures.actual.unit_factor[0], [130 / 95, 1.0, 60 / 95])
    assert figures.actual.unit_time_factor is None


def test_a_profile_keeps_its_shape_and_gets_the_true_mean(tmp_path: Path) -> None:
    profiles = PowerProfiles.from_samples([np.repeat([250.0, 350.0], 25)])
    jobs = jobs_of(["STREAM"], profiles=profiles)
    run = with_profiles(ran(jobs, physics(tmp_path)))
    mean = 300.0 * 240.0 / 381.0
    assert run.schedule.energy_j[0] == pytest.approx(mean * run.schedule.end_s[0], rel=1e-6)
    low, high = run.power.jobs_w[[0, -2]]
    assert (low - 40.0) / (high - 40.0) == pytest.approx((250.0 - 40.0) / (350.0 - 40.0), rel=1e-6)


def ear_files(folder: Path) -> dict[str, str]:
    """Coefficients of two partitions with one and two clocks, metrics of two applications, by hand.

    At p1 both draw 300 W for 100 s. On p2 "mem" draws 150 W for 105 s, "cpu" 290 W for 200 s at 2.0 GHz. At 1.0 GHz
    P(f) is 0.5 P + 10 TPI + 5 and CPI(f) 0.75 CPI + 2 TPI.
    """
    head = "module,f_ref_ghz,f_target_ghz,available,A,B,C,D,E,F\n"
    same = "1,0,0,1,0,0"
    (folder / "coefficients.csv").write_text(
        f"{head}p1,2.0,2.0,1,{same}\np2,2.0,2.0,1,{same}\np2,2.0,1.0,1,0.5,10,5,0.75,2,0\n"
    )
    (folder / "apps.csv").write_text(
        "app_id,module_index,time_s,power_w,cpi,tpi\nmem,0,100,300,1,0.1\nmem,1,105,150,1.0,0.1\n"
        "cpu,0,100,300,1,0\ncpu,1,200,290,2,0\n"
    )
    return {"coefficients": str(folder / "coefficients.csv"), "apps": str(folder / "apps.csv")}


FAST = Partition("p1", 4, frequencies_hz=(2.0e9,), max_w=400.0)
HPC = Machine("hpc", (FAST, replace(FAST, name="p2", frequencies_hz=(2.0e9, 1.0e9))))
EAR = 'reference = "p1"\near = { coefficients = "coefficients.csv", apps = "apps.csv" }\n'
MIN_RUNTIME: dict[str, Any] = {"order": "all-partitions", "frequency": "fastest"}


def test_the_equations_of_ear(tmp_path: Path) -> None:
    """Equations 1 to 3 of paper 1 at 1.0 GHz: P = 0.5 x 150 + 10 x 0.1 + 5, CPI = 0.75 + 2 x 0.1, T = 105 x CPI x 2."""
    ear_files(tmp_path)
    jobs = Jobs.build([0.0, 0.0], [1, 1], [1_000.0] * 2, app=["mem", "cpu"], mean_power_w=[330.0, 300.0])
    actual = true_figures(physics(tmp_path, EAR, HPC), jobs, HPC).actual
    np.testing.assert_allclose(actual.power_w[0], [330.0, 330.0 * 150 / 300, 330.0 * 81 / 300])
    np.testing.assert_allclose(actual.time_factor[0], [1.0, 1.05, 1.05 * 0.95 * 2])
    np.testing.assert_allclose(actual.power_w[1], [300.0, 290.0, 150.0])
    np.testing.assert_allclose(actual.time_factor[1], [1.0, 2.0, 2.0 * 0.75 * 2])


def test_eamc_saves_energy_on_a_users_own_table(tmp_path: Path) -> None:
    """min-runtime puts "mem" on p1 (300 W for 1,000 s); eamc-priority-inc on p2, half the watts for 5 % more time."""
    files = ear_files(tmp_path)
    jobs = Jobs.build([0.0, 5e3], [1, 1], [1_000.0] * 2, app=["mem", "cpu"], mean_power_w=[300.0, 300.0])
    ear = {"part": "ear", "profiles": files}
    rows = {
        "eamc": load_policy("eamc-priority-inc", estimator=ear),
        "fast": load_policy("easy", estimator=ear, **MIN_RUNTIME),
    }
    found = {name: simulate(jobs, HPC, row, actual=physics(tmp_path, EAR, HPC)).schedule for name, row in rows.items()}
    np.testing.assert_allclose(found["fast"].energy_j, [300.0 * 1_000.0] * 2)
    np.testing.assert_allclose(found["eamc"].energy_j, [150.0 * 1_050.0, 300.0 * 1_000.0])
    assert found["eamc"].energy_j.sum() / found["fast"].energy_j.sum() == pytest.approx(0.7625)


def test_the_error_multiplies_the_truth_and_nothing_else(tmp_path: Path) -> None:
    jobs, base = jobs_of(["STREAM", "STREAM", "DGEMM", "lu"]), physics(tmp_path)
    exact = true_figures(base, jobs, TWO).actual
    found = true_figures(replace(base, error=0.05, seed=7), jobs, TWO).actual
    for app, rows in (("STREAM", [0, 1]), ("DGEMM", [2])):
        for name, own in (("p1", slice(0, 2)), ("p2", slice(2, 4))):
            watts, seconds = drawn_error(0.05, 7, app, name)
            np.testing.assert_allclose(found.power_w[rows, own], exact.power_w[rows, own] * watts, rtol=1e-12)
            np.testing.assert_allclose(found.time_factor[rows, own], exact.time_factor[rows, own] * seconds, rtol=1e-12)
    np.testing.assert_array_equal(found.power_w[3], exact.power_w[3])
    np.testing.assert_array_equal(found.time_factor[3], exact.time_factor[3])
    draws = np.array([drawn_error(0.3, seed, "cg", "p1") for seed in range(20_000)])
    np.testing.assert_allclose(draws.mean(axis=0), 1.0, atol=4 * 0.31 / np.sqrt(20_000))
    np.testing.assert_allclose(np.log(draws).std(axis=0), 0.3, rtol=0.03)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.03


def test_an_error_never_takes_a_unit_above_its_maximum(tmp_path: Path) -> None:
    """STREAM on p1 at the highest clock: the lesser of what was drawn and 491 W, and each is met by some seed."""
    jobs, base = jobs_of(["STREAM", "DGEMM"]), physics(tmp_path)
    exact = true_figures(base, jobs, TWO).actual.power_w[0, 0]
    found = np.array(
        [true_figures(replace(base, error=0.5, seed=k), jobs, TWO).actual.power_w[0, 0] for k in range(40)]
    )
    drawn = np.array([drawn_error(0.5, k, "STREAM", "p1")[0] for k in range(40)]) * exact
    np.testing.assert_allclose(found, np.minimum(drawn, 491.0))
    assert (drawn > 491.0).any()
    assert (drawn < 491.0).any()


LIMITS = "app,partition,limit_w,watts,time_s\nSTREAM,p1,500,381,100\nSTREAM,p1,300,281,104\nSTREAM,p1,200,181,130\n"


class Limited:
    """A control that limits device 0 once, at the first arrival."""

    events = frozenset({"arrival"})
    period_s = 0.0

    def __init__(self, cap_w: float) -> None:
        self.cap_w = cap_w

    def act(self, view: View) -> Sequence[Action]:
        return [SetDeviceLimits((0,), (self.cap_w,))]


@pytest.mark.parametrize(
    ("limit_w", "slower"),
    [
        (381.0, 1.0),
        (281.0, 1.04),
        (331.0, 1.02),  # half way between two limits, in watts
        (231.0, 1.17),
        (181.0, 1.3),
        (113.1, 1.3 * (131 / 63.1) ** 0.5),  # below the lowest one: by the exponents, 2 and 1
    ],
)
def test_a_limit_slows_an_application_as_its_curve_says(tmp_path: Path, limit_w: float, slower: float) -> None:
    """STREAM alone on a unit of p1, of which 50 W are idle watts and 381 W what it draws free; lu has no curve."""
    machine = replace(TWO, partitions=TWO.partitions[:1])
    given = physics(tmp_path, 'limits = "limits.csv"\n', machine, limits=LIMITS)
    policy = load_policy("easy", controls=[Limited(limit_w)])
    by_exponents = ((381.0 - 50.0) / (limit_w - 50.0)) ** 0.5
    for app, factor in (("STREAM", slower), ("lu", by_exponents)):
        jobs = jobs_of([app], mean_power_w=np.array([381.0]), partition=np.array(["p1"]))
        run = simulate(jobs, machine, policy, actual=given)
        lasted = run.schedule.end_s[0] - run.schedule.start_s[0]
        assert lasted == pytest.approx(1_000.0 * factor, abs=1e-5)
        assert run.schedule.energy_j[0] == pytest.approx(lasted * limit_w, rel=1e-6)
        noted = "jobs with true run times under limits by limits.csv"
        assert run.sources.get(noted, 0) == int(app == "STREAM")


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("STREAM,p3,100,90,200", "p3"),
        ("STREAM,p1,300,250,200", "twice"),
        ("STREAM,p1,150,160,200", "above limit_w"),
        ("STREAM,p1,150,50,200", "not above idle_w = 50"),
        ("STREAM,p1,190,181,200", "no less"),
        ("DGEMM,p1,300,250,200", "one limit"),
        ("STREAM,p1,150,140,0", "time_s"),
        ("STREAM,p1,,140,200", "limit_w"),
        ("STREAM,p1,150,nan,200", "watts"),
        (",p1,150,140,200", "missing"),
    ],
)
def test_a_wrong_row_of_limits_is_named_with_its_line(tmp_path: Path, row: str, what: str) -> None:
    error = refused(tmp_path, 'reference = "p1"\nlimits = "limits.csv"\n', limits=f"{LIMITS}{row}\n")
    assert what in error.what
    assert str(error.where) == f"{tmp_path / 'limits.csv'}:5"


def refused(folder: Path, keys: str, **files: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        true_figures(physics(folder, keys, **files), jobs_of(["STREAM", "cg"]), TWO)
    assert caught.value.hint
    return caught.value


TABLE = 'reference = "p1"\ntable = "cells.csv"\n'


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("STREAM,p3,2.7e9,300,90", "p3"),
        ("STREAM,p1,2.0e9,300,90", "2e+09 Hz"),
        ("STREAM,p1,2.7e9,300,90", "stated twice"),
        ("STREAM,p1,,300,90", "stated twice"),
        ("STREAM,p1,1.2e9,-300,90", "-300"),
        ("STREAM,p1,1.2e9,300,0", "time_s"),
        ("STREAM,p1,1.2e9,300,", "time_s"),
        ("STREAM,p1,1.2e9,1e400,90", "watts"),
        ("STREAM,p1,1.2e9,3e5,90", "watts"),
        ("STREAM,p1,1.2,300,90", "frequency_hz"),
        (",p1,1.2e9,300,90", "missing"),
        ("STREAM,p1,1.2e9,300", "columns"),
    ],
)
def test_a_wrong_row_is_named_with_its_line(tmp_path: Path, row: str, what: str) -> None:
    error = refused(tmp_path, TABLE, cells=f"# a comment\n{CELLS}{row}\n")
    assert what in error.what
    assert str(error.where) == f"{tmp_path / 'cells.csv'}:7"


@pytest.mark.parametrize(
    ("keys", "files", "where", "what"),
    [
        (TABLE, {"cells": "app,partition,watts\nSTREAM,p1,1\n"}, "cells.csv:1", "time_s"),
        (TABLE, {"cells": "app,partition,watts,time_s\n"}, "cells.csv", "no rows"),
        ('reference = "p4"\ntable = "cells.csv"\n', {}, "physics.toml: reference", "p4"),
        ('reference = "p1"\nreference_hz = 2e9\ntable = "cells.csv"\n', {}, "physics.toml: reference", "2e+09"),
        (TABLE, {"cells": "app,partition,watts,time_s\nSTREAM,p2,365,81\n"}, "physics.toml", "STREAM"),
        (TABLE + 'units = "units.csv"\n', {"units": "app,unit,watts\ncg,0,100\ncg,1,90\n"}, "units.csv", "unit 2"),
        (
            TABLE + 'units = "units.csv"\n',
            {"units": "app,unit,watts\n" + "".join(f"cg,{k},100\n" for k in range(8)) + "ft,0,100\n"},
            "units.csv",
            "ft",
        ),
        (
            TABLE + 'units = "units.csv"\n',
            {"units": "app,unit,watts\n" + "".join(f"cg,{k},100\n" for k in range(9))},
            "units.csv",
            "9 units",
        ),
        (TABLE + 'units = "units.csv"\n', {"units": "app,unit,watts\ncg,0,0\n"}, "units.csv:2", "watts"),
        (TABLE + 'units = "units.csv"\n', {"units": "app,unit,watts,time_s\ncg,0,10,-1\n"}, "units.csv:2", "time_s"),
        ("tables = 1\n", {}, "physics.toml", "tables"),
        ("", {}, "physics.toml", "no physics"),
        ('ear = { coefficients = "c.csv" }\n', {}, "physics.toml", "apps or database"),
        ('table = "missing.csv"\n', {}, "missing.csv", ""),
    ],
)
def test_files_that_cannot_be_used_are_refused(
    tmp_path: Path, keys: str, files: dict[str, str], where: str, what: str
) -> None:
    error = refused(tmp_path, keys, **files)
    assert str(error.where) == f"{tmp_path / where}"
    assert what in error.what


def test_two_sources_of_one_cell_are_refused(tmp_path: Path) -> None:
    ear_files(tmp_path)
    with pytest.raises(InputError) as caught:
        true_figures(
            physics(tmp_path, EAR + 'table = "cells.csv"\n', HPC, cells="app,partition,watts,time_s\nmem,p1,300,100\n"),
            jobs_of(["mem"]), HPC,
        )  # fmt: skip
    assert "coefficients.csv: application mem on p1" in f"{caught.value.where} {caught.value.what}"
    assert "cells.csv:2" in f"{caught.value.where} {caught.value.what}"


def test_a_job_whose_reference_nobody_states_is_refused(tmp_path: Path) -> None:
    jobs = replace(jobs_of(["lu", "STREAM"], partition=["", ""]), extra={})
    with pytest.raises(InputError) as caught:
        true_figures(physics(tmp_path, 'table = "cells.csv"\n'), jobs, TWO)
    assert "job 2" in caught.value.what
    assert caught.value.hint is not None
    assert "ran_partition" in caught.value.hint
    with pytest.raises(InputError) as caught:
        true_figures(physics(tmp_path), jobs_of(["STREAM"], extra={"ran_partition": np.array(["p9"])}), TWO)
    assert "p9" in caught.value.what


@pytest.mark.parametrize(("watts", "user", "cell"), [(400.0, "", ""), (500.0, "p1", "p1 at 2.7 GHz")])
def test_true_watts_above_the_maximum_of_a_unit_are_refused(tmp_path: Path, watts: float, user: str, cell: str) -> None:
    jobs = jobs_of(["STREAM"], mean_power_w=[watts], partition=[user])
    if not cell:
        true_figures(physics(tmp_path), jobs, TWO)
        return
    with pytest.raises(InputError) as caught:
        true_figures(physics(tmp_path), jobs, TWO)
    assert f"STREAM on {cell}" in caught.value.what
    text = "app,unit,watts\n" + "".join(f"STREAM,{unit},{180 if unit == 7 else 100}\n" for unit in range(8))
    at_edge = jobs_of(["STREAM"], mean_power_w=[400.0], partition=["p2"])
    with pytest.raises(InputError) as caught:
        true_figures(physics(tmp_path, TABLE + 'units = "units.csv"\n', units=text), at_edge, TWO)
    assert "STREAM on p2 at 3.1 GHz" in caught.value.what


def test_physics_of_a_machine_file(tmp_path: Path) -> None:
    """Names count from its folder; the engine refuses a machine whose physics nobody read."""
    (tmp_path / "cells.csv").write_text(CELLS)
    text = 'name = "m"\n[physics]\nreference = "p1"\ntable = "cells.csv"\n'
    for name, clocks in (("p1", "[2.7e9, 1.2e9]"), ("p2", "[3.1e9, 1.2e9]")):
        text += f'[[partitions]]\nname = "{name}"\nnodes = 4\nfrequencies_hz = {clocks}\nmax_w = 497.0\n'
    (tmp_path / "machine.toml").write_text(text)
    machine = read_machine(tmp_path / "machine.toml")
    found = physics_of(Task(""), machine)
    assert found is not None
    assert found.files == (str(tmp_path / "cells.csv"),)
    assert ran(jobs_of(["STREAM"]), found, machine).schedule.end_s[0] == pytest.approx(767.74, abs=0.01)
    with pytest.raises(InputError):
        ran(jobs_of(["STREAM"]), None, machine)
    one = Prediction(np.full((1, 4), 100.0), np.ones((1, 4)))
    assert simulate(jobs_of(["STREAM"]), machine, load_policy("easy"), actual=one).schedule.end_s[0] == 1_000.0
