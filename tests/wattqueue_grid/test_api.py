"""`wattqueue_grid.settle` gives the files of `wattqueue settle` to the byte, and the same errors."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import wattqueue as wq
from tests.api.conftest import Line
from wattqueue_grid import settle

CONTRACT = """
name = "Interruptible load"
currency = "EUR"
time_zone = "Europe/Berlin"
baseline = "pjm-same-day"
committed_kw = 2

[payment]
per_mwh = 180.00

[penalty]
per_mwh = 300.00
"""
START = "2023-03-01T00:00+01:00"
TARGETS = "start_s,end_s,limit,unit,correlation_id\n36000,43200,8000,W,event-1\n57600,61200,8000,W,event-2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An hourly meter of a day: 10 kW, in the first event 7 kW, and a gap in the second one."""
    (tmp_path / "contract.toml").write_text(CONTRACT, encoding="utf-8")
    (tmp_path / "targets.csv").write_text(TARGETS, encoding="utf-8")
    rows = [f"2023-03-01T{h:02d}:00+01:00,{7 if h in (10, 11) else '' if h == 16 else 10}" for h in range(24)]
    lead = "# wattqueue meter interval_s=3600 label=measured source=utility-17\ntime,power_kw\n"
    (tmp_path / "meter.csv").write_text(lead + "\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def test_files_are_those_of_the_command_line(folder: Path, line: Line) -> None:
    given = (folder / "targets.csv", "--contract", folder / "contract.toml", "--meter", folder / "meter.csv")
    done = line("settle", *given, "--start", START, "--out", folder / "line")
    assert done.exit_code == 0, done.output
    settled = settle(folder / "targets.csv", folder / "contract.toml", folder / "meter.csv", start=START)
    settled.save(folder / "api")
    names = {"intervals.csv", "events.csv", "statement.html"}
    assert {file.name for file in (folder / "api").iterdir()} == names
    for name in names:
        assert (folder / "api" / name).read_bytes() == (folder / "line" / name).read_bytes(), name
    assert str(settled) in done.output


def test_figures_of_a_meter_by_hand(folder: Path) -> None:
    settled = settle(folder / "targets.csv", folder / "contract.toml", folder / "meter.csv", start=START)
    # 3 kW below 10 kW for two hours, 2 of them are paid: 4 kWh at 0.18. The hour without data: 2 kWh at 0.30.
    assert (settled.payment, settled.penalty) == (Decimal("0.72"), Decimal("0.6"))
    assert settled.intervals["delivered_kw"].to_list() == [3.0, 3.0, None]
    assert settled.events["event"].to_list() == ["event-1", "event-2"]
    assert repr(settled) == "<settlement of 2 events: Interruptible load>"
    one = settle(folder / "targets.csv", folder / "contract.toml", folder / "meter.csv", start=START, event=["event-1"])
    assert (one.payment, one.penalty) == (Decimal("0.72"), Decimal(0))


def test_a_run_in_memory_is_a_meter(folder: Path) -> None:
    jobs = wq.Jobs.build(3_600.0 * np.arange(24), [2] * 24, [3_600.0] * 24, mean_power_w=[5_000.0] * 24)
    run = wq.simulate(jobs, nodes=2, node_watts="100:5000")
    settled = settle(
        folder / "targets.csv", folder / "contract.toml", run, start=START, counterfactual=run, interval=3_600
    )
    assert settled.intervals["metered_kw"].to_list() == [10.0] * 3
    assert settled.intervals["counterfactual_kw"].to_list() == [10.0] * 3
    assert set(settled.intervals["label"]) == {"simulated"}
    with pytest.raises(wq.InputError) as error:
        settle(folder / "targets.csv", folder / "contract.toml", run)
    assert "--start" in str(error.value.hint) or error.value.where == folder / "targets.csv"


def test_a_wrong_argument_is_named(folder: Path) -> None:
    for where, arguments in (
        ("meter", (folder / "targets.csv", folder / "contract.toml", 17)),
        ("targets", (17, folder / "contract.toml", folder / "meter.csv")),
        ("contract", (folder / "targets.csv", None, folder / "meter.csv")),
    ):
        with pytest.raises(wq.InputError) as error:
            settle(*arguments)
        assert error.value.where == where
