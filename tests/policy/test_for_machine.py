"""Rows that follow from the machine: what they become, what is left out and said, and files that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wattqueue as wq
from wattqueue.errors import InputError, PolicyError
from wattqueue.formats.machine.file import read_machine
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_files import KnownFiles
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.physics import EarFiles
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.signals import Series
from wattqueue.policy.for_machine import SiteFacts, expansion, row_on
from wattqueue.policy.interfaces import AXES
from wattqueue.policy.policy import load_policy
from wattqueue.policy.rows import FOR_MACHINE, LEFT_OUT, find_row, listed
from wattqueue.sim.engine import simulate

SITE = Path(__file__).parents[2] / "examples" / "site"
PLAIN = Machine("plain", (Partition("p", 4, idle_w=100.0, max_w=400.0),))
PARTS = (
    Partition("cpu", 2, frequencies_hz=(2.4e9, 1.8e9), idle_w=100.0, max_w=400.0),
    Partition("mem", 2, frequencies_hz=(2.8e9, 2.0e9), idle_w=100.0, max_w=400.0),
)
KNOWN: dict[str, Any] = {
    "profiles": {"coefficients": "c.csv", "apps": "a.csv"}, "table": object(),
    "prices": Series(np.zeros(1), np.ones(1)),
}  # fmt: skip
RICH = Machine("rich", PARTS, sensor=PowerSensor(sample_s=10.0, poll_s=10.0))


def on(machine: Machine, known: dict[str, Any] | None = None, name: str = "combined") -> dict[str, Any]:
    return row_on(find_row(name), SiteFacts.simulated(machine, known))


def test_a_machine_that_gives_everything_gets_every_ingredient() -> None:
    row = on(RICH, KNOWN)
    ear = {"part": "ear", "profiles": KNOWN["profiles"]}
    assert {axis: row[axis] for axis in AXES} == {
        "estimator": [ear, {"part": "unit-factors", "table": KNOWN["table"]}],
        "runtime": "recent-quantile",
        "order": "priority-inc",
        "frequency": [
            "least-distance-or-lower", {"part": "frequency-window", "lowest_hz": 0.0},
            {"part": "consent", "start": "lowest"},
        ],
        "placement": "least-watts",
        "backfill": {"part": "easy-sjbf", "ahead": "limits", "slowed": True},
        "ledger": "measured",
        "controls": [
            "slow-consenting", {"part": "rapl-redistribution", "period_s": 10.0},
            {"part": "delay-consenting", "prices": KNOWN["prices"]},
        ],
    }  # fmt: skip
    assert LEFT_OUT not in row


def test_what_a_machine_cannot_give_is_left_out_and_said() -> None:
    row = on(PLAIN)
    assert {axis: row[axis] for axis in AXES} == {
        "estimator": "app-mean", "runtime": "recent-quantile", "order": "fcfs", "frequency": "highest",
        "placement": "lowest", "backfill": {"part": "easy-sjbf", "ahead": "limits"}, "ledger": "adaptive",
        "controls": [],
    }  # fmt: skip
    said = " ".join(row[LEFT_OUT])
    assert all(word in said for word in ("EAR", "units", "clocks", "[sensor]", "redistribution", "price"))


@pytest.mark.parametrize(
    ("machine", "lacking", "axis", "part"),
    [
        (RICH, "profiles", "estimator", {"part": "unit-watts", "table": KNOWN["table"]}),
        (RICH, "profiles", "order", "fcfs"),
        (RICH, "table", "placement", "lowest"),
        (RICH, "prices", "controls", ["slow-consenting", {"part": "rapl-redistribution", "period_s": 10.0}]),
        (Machine("unmeasured", PARTS), "prices", "ledger", "adaptive"),
        (Machine("unmeasured", PARTS), "prices", "controls", ["slow-consenting"]),
        (Machine("unmeasured", PARTS), "profiles", "ledger", "predicted"),
        (Machine("one", PARTS[:1]), "prices", "order", "fcfs"),
    ],
)
def test_each_ingredient_is_replaced_by_itself(machine: Machine, lacking: str, axis: str, part: Any) -> None:
    row = on(machine, {key: value for key, value in KNOWN.items() if key != lacking})
    assert row[axis] == part
    assert row[LEFT_OUT]


def test_choices_of_the_user_stay() -> None:
    row = on(PLAIN, name="combined+ledger=predicted+controls=none")
    assert row["ledger"] == "predicted"
    assert row["controls"] == []
    assert row["runtime"] == "recent-quantile"


def test_a_row_that_follows_from_no_machine_stays_itself() -> None:
    for name in ("easy", "e-pas-intel", "eamc-priority-inc"):
        assert on(RICH, {}, name) == find_row(name)


def test_parts_read_what_the_machine_knows_where_the_row_names_no_file() -> None:
    assert on(RICH, KNOWN, "eamc-priority-inc")["estimator"] == {"part": "ear", "profiles": KNOWN["profiles"]}
    assert on(RICH, KNOWN, "slurm-vtp")["estimator"] == {"part": "unit-watts", "table": KNOWN["table"]}
    assert on(RICH, KNOWN, "easy-by-price")["controls"] == [{"part": "delay-consenting", "prices": KNOWN["prices"]}]
    own = {**find_row("slurm-vtp"), "estimator": {"part": "unit-watts", "table": "own.csv"}}
    assert row_on(own, SiteFacts.simulated(RICH, KNOWN)) == own


def test_the_part_that_a_user_adds_behind_an_estimator_reads_the_units_of_the_machine() -> None:
    row = {**find_row("easy"), "estimator": ["history-mean", "unit-factors"]}
    found = row_on(row, SiteFacts.simulated(RICH, KNOWN))["estimator"]
    assert found == ["history-mean", {"part": "unit-factors", "table": KNOWN["table"]}]


def test_a_run_of_a_row_that_was_not_made_for_the_machine_is_refused() -> None:
    jobs = Jobs.build([0.0], [1], [10.0], mean_power_w=[200.0])
    with pytest.raises(PolicyError, match="not made for plain"):
        simulate(jobs, PLAIN, load_policy("combined"))
    run = simulate(jobs, PLAIN, load_policy("combined", machine=PLAIN))
    assert run.schedule.ran.all()


def test_every_choice_says_what_it_became() -> None:
    (said,) = expansion("combined", find_row("combined"), RICH, on(RICH, KNOWN))
    assert said.startswith("combined on rich: estimator ear,unit-factors, runtime recent-quantile, order priority-inc")
    assert all(f"{axis} " in said for axis in AXES)
    assert expansion("easy", find_row("easy"), RICH, on(RICH, KNOWN, "easy")) == []


def test_the_example_names_its_files_and_a_run_keeps_the_row() -> None:
    machine = read_machine(SITE / "site.toml")
    files = EarFiles(str(SITE / "coefficients.csv"), str(SITE / "apps.csv"))
    assert machine.known == KnownFiles(files, str(SITE / "units.csv"))
    jobs = Jobs.build([0.0, 1.0], [2, 1], [600.0, 300.0], app=["stream", "vasp"], user=["a", "b"])
    run = wq.simulate(jobs, machine, policy="combined")
    row = run.record.facts["policy"]
    assert not any(listed(row[axis]) == [FOR_MACHINE] for axis in AXES)
    assert row["estimator"][1] == {"part": "unit-factors", "table": str(SITE / "units.csv")}
    assert row[LEFT_OUT] == on(machine)[LEFT_OUT]
    assert [f"combined leaves out {what}" for what in row[LEFT_OUT]] == run.without_effect[: len(row[LEFT_OUT])]
    other = wq.simulate(jobs, machine, policy="slurm-vtp")
    assert other.record.facts["policy"]["estimator"]["table"] == str(SITE / "units.csv")


def write(path: Path, units: dict[str, tuple[str, ...]]) -> Machine:
    """Write a table with these units of each application, and a machine of four units that knows it."""
    rows = [f"{app},{unit},300" for app, names in units.items() for unit in names]
    (path / "units.csv").write_text("\n".join(["app,unit,watts", *rows]) + "\n")
    return Machine("rich", PARTS, known=KnownFiles(units=str(path / "units.csv")))


@pytest.mark.parametrize(
    ("units", "line", "words"),
    [
        ({"a": ("0", "1", "2", "3", "4")}, ":6", "unit '4' is none of the 4 of rich"),
        ({"a": ("0", "1", "3")}, "", "no row for unit 2 of the 4 of rich"),
        ({"a": ("0", "1", "2", "3"), "b": ("0", "1", "3")}, "", "application 'b' has no row for unit '2'"),
    ],
)
def test_factors_that_do_not_fit_the_machine_are_refused(
    tmp_path: Path, units: dict[str, tuple[str, ...]], line: str, words: str
) -> None:
    machine = write(tmp_path, units)
    with pytest.raises(InputError, match=words) as found:
        on(machine)
    assert found.value.where == f"{tmp_path / 'units.csv'}{line}"
    assert found.value.hint
    assert on(machine, name="easy") == find_row("easy"), "a row that does not read the file does not mind it"
