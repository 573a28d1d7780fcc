"""GPU partitions in machine files: figures, curves from measurements, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wattqueue.errors import InputError, MachineError
from wattqueue.formats.machine.file import machine_data, machine_of, machine_toml, read_machine
from wattqueue.model.machine import Machine
from wattqueue.parts.scale import static_prediction, times_by_option

GPUS = {
    "name": "gpu", "nodes": 2, "gpus_per_node": 4, "idle_w": 600.0, "max_w": 2_400.0, "gpu_idle_w": 50.0,
    "gpu_max_w": 400.0, "gpu_caps_w": [400.0, 300.0, 200.0],
}  # fmt: skip
CURVE = "app,limit_w,watts,time_s\na,400,350,10\na,300,290,11\na,200,199,14\na,100,130,20\nb,400,380,5\nb,200,198,8\n"


def machine(**figures: object) -> Machine:
    """The machine of one partition of GPUs with other figures; None takes one out."""
    row = {key: value for key, value in {**GPUS, **figures}.items() if value is not None}
    return machine_of({"name": "m", "partitions": [row]}, "m.toml")


def test_limits_are_options_of_a_partition() -> None:
    made = machine(gpu_floor_w=250.0)
    assert made.option_gpu_cap_w.tolist() == [400.0, 300.0, 200.0]
    assert np.isnan(made.option_frequency_hz).all()
    # 1,400 of a node's 1,800 W above idle are its GPUs'; of these 4 x (300 - 50) are left, and 4 x (250 - 50).
    promised = static_prediction(np.full(1, np.nan), made).power_w[0]
    assert promised == pytest.approx([2_400.0, 600 + 400 + 1_000.0, 600 + 400 + 800.0])
    assert made.option_dynamic_factor * 1_800 + 600 == pytest.approx(promised)


def test_a_job_far_below_a_limit_is_not_held_back() -> None:
    made = machine(dvfs_beta=1.0, dvfs_alpha=2.0)
    found = static_prediction(np.array([650.0, 2_000.0]), made)
    assert found.power_w[0] == pytest.approx([650.0] * 3, rel=1e-6)
    assert found.time_factor[0] == pytest.approx([1.0] * 3, rel=1e-6)
    assert (np.diff(found.power_w[1]) < 0).all()
    assert (np.diff(found.time_factor[1]) > 0).all()
    # without a curve: the square root of the share that is left
    left = (found.power_w[1] - 600.0 - 1_400.0 * 400 / 1_800) / (1_400.0 * 1_400 / 1_800)
    assert found.time_factor[1] == pytest.approx(left**-0.5)


def test_units_that_are_gpus() -> None:
    made = machine(unit="gpu", idle_w=150.0, max_w=600.0)
    assert made.units == 8
    assert made.partitions[0].units_per_node == 4
    assert made.node_of_unit.tolist() == [0] * 4 + [1] * 4
    assert made.devices == 8
    # 350 of 450 W above idle are the GPU's, of which 250 are left at 300 W
    assert static_prediction(np.full(1, np.nan), made).power_w[0] == pytest.approx([600.0, 500.0, 400.0])


def test_a_curve_of_measurements(tmp_path: Path) -> None:
    """The floor is the lowest limit that held: at 100 W application a drew 130 W."""
    (tmp_path / "curve.csv").write_text(CURVE)
    text = 'name = "m"\n[[partitions]]\n' + "\n".join(
        f"{key} = {str(value) if not isinstance(value, str) else chr(34) + value + chr(34)}"
        for key, value in GPUS.items()
    )
    (tmp_path / "m.toml").write_text(f'{text}\ncurve = "curve.csv"\n')
    made = read_machine(tmp_path / "m.toml")
    part = made.partitions[0]
    assert part.gpu_floor_w == 200.0
    assert part.curve_share[-1] == part.curve_time[-1] == 1.0
    time = times_by_option(np.array([2_400.0]), made)[0]
    assert time[0] == 1.0
    assert 1.0 < time[1] < time[2] < 1.7
    again = tmp_path / "again.toml"
    again.write_text(machine_toml(made))
    assert read_machine(again) == made, "what is written holds the curve, and needs no file"


def test_machines_without_gpus_write_no_figures_of_them() -> None:
    row = machine_data(machine_of({"name": "m", "partitions": [{"name": "p", "nodes": 2}]}, "m"))["partitions"][0]
    assert not [key for key in row if "gpu" in key or "curve" in key]


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ({"gpus_per_node": None}, "without gpus_per_node"),
        ({"gpus_per_node": None, "gpu_caps_w": None, "gpu_max_w": None, "gpu_idle_w": None, "unit": "gpu"}, "unit"),
        ({"unit": "core"}, "whose unit is a core"),
        ({"frequencies_hz": [2e9]}, "beside gpu_caps_w"),
        ({"max_w": None}, "without max_w"),
        ({"gpu_max_w": None}, "without gpu_max_w"),
        ({"gpu_caps_w": [300.0, 400.0]}, r"gpu_caps_w = \[300"),
        ({"gpu_caps_w": [400.0, 300.0, 300.0]}, "gpu_caps_w"),
        ({"gpu_caps_w": [400.0, 50.0]}, "down to 50"),
        ({"gpu_floor_w": 500.0}, "gpu_floor_w = 500"),
        ({"max_w": 1_800.0}, "no room for its GPUs"),
        ({"idle_w": 100.0}, "below its 4 GPUs"),
        ({"curve_share": [0.5, 1.0], "curve_time": [1.2]}, "no curve"),
        ({"curve_share": [0.5, 1.0], "curve_time": [1.0, 1.2]}, "no curve"),
        ({"gpu_caps_w": None, "gpu_floor_w": 100.0}, "without gpu_caps_w"),
        ({"gpus_per_node": 0}, "without gpus_per_node"),
        ({"gpus_per_node": 5_000}, "gpus_per_node"),
        ({"curve": "none.csv"}, "none.csv"),
    ],
)
def test_figures_that_contradict(figures: dict[str, object], told: str) -> None:
    with pytest.raises((MachineError, InputError), match=told):
        machine(**figures)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("a,400,350,10\n", "has 1 limit"),
        ("a,400,350,10\na,400,350,10\n", "1 of them different"),
        (",400,350,10\n", "application is missing"),
        ("a,400,-1,10\n", "watts is missing, 0 or outside"),
        ("a,400,500,10\na,300,400,11\n", "no limit holds"),
        ("", "no rows"),
    ],
)
def test_measurements_that_cannot_be_used(tmp_path: Path, rows: str, told: str) -> None:
    (tmp_path / "curve.csv").write_text("app,limit_w,watts,time_s\n" + rows)
    with pytest.raises((MachineError, InputError), match=told):
        machine_of({"name": "m", "partitions": [{**GPUS, "curve": "curve.csv"}]}, "m.toml", tmp_path)
