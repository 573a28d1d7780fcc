"""Energy of jobs by unit: files, what is left out, what is refused, and factors from the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from wattqueue.errors import InputError
from wattqueue.formats.unit_factors import read_unit_factors
from wattqueue_studies.cli.pmc import app
from wattqueue_studies.pmc.unit_energy import read_unit_energy
from wattqueue_studies.unit_telemetry import ONE_APPLICATION, ONE_JOB, UnitTelemetry

HEADER = "job,app,unit,end_s,run_s,energy_j\n"


def file(folder: Path, text: str) -> Path:
    path = folder / "energy.csv"
    path.write_text(HEADER + text)
    return path


def test_rows_in_order_of_ends_without_those_that_have_no_energy(tmp_path: Path) -> None:
    found = read_unit_energy(
        file(tmp_path, "9,cg,n1,50,10,1000\n7,ft,n0,20,10,500\n7,ft,n1,20,10,600\n8,ft,n0,30,5,0\n8,ft,n1,30,5,\n")
    )
    assert found.end_s.tolist() == [20.0, 20.0, 50.0]
    assert found.watts.tolist() == [50.0, 60.0, 100.0]
    assert found.left_out == 2
    assert [found.apps[k] for k in found.app] == ["ft", "ft", "cg"]
    assert [found.units[k] for k in found.unit] == ["n0", "n1", "n1"]
    telemetry = UnitTelemetry.of_jobs(found.job, found.app, found.unit, found.end_s, found.watts)
    assert telemetry.kind.tolist() == [ONE_JOB, ONE_JOB, ONE_APPLICATION]
    assert telemetry.group[0] == telemetry.group[1] != telemetry.group[2]


@pytest.mark.parametrize("row", [",cg,n0,1,1,1", "1,cg,,1,1,1", "1,cg,n0,,1,1", "1,cg,n0,1,0,1", "1,cg,n0,1,1,-5"])
def test_a_row_that_cannot_be_is_named(tmp_path: Path, row: str) -> None:
    path = file(tmp_path, f"1,cg,n1,1,1,1\n{row}\n")
    with pytest.raises(InputError) as caught:
        read_unit_energy(path)
    assert caught.value.where == f"{path}:3"


def test_a_file_without_energy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no row has energy"):
        read_unit_energy(file(tmp_path, "1,cg,n0,1,1,0\n"))


def test_factors_and_drifts_from_the_command_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    factor = 1.0 + 0.05 * rng.standard_normal(12)
    rows = []
    for job in range(600):
        day = 10 * job / 600
        units = rng.choice(12, int(rng.choice([1, 2, 4])), replace=False)
        level = (100.0, 200.0)[job % 2] * np.exp(0.05 * rng.standard_normal())
        for unit in units:
            changed = 1.08 if unit == 4 and day > 7 else 1.0
            watts = level * factor[unit] * changed * np.exp(0.01 * rng.standard_normal())
            rows.append(f"{job},{'ab'[job % 2]},node{unit},{86400 * day:.0f},100,{100 * watts:.2f}\n")
    out = tmp_path / "factors.csv"
    done = CliRunner().invoke(app, ["learn", str(file(tmp_path, "".join(rows))), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "drift: node4 +" in done.output
    assert "1 units have changed" in done.output
    table = read_unit_factors(out)
    assert table.apps == ("a", "b")
    assert table.origin == "predicted"
    true = factor / factor.mean()
    order = [int(name.removeprefix("node")) for name in table.units]
    np.testing.assert_allclose(table.factor[0], true[order], rtol=0.01)
    assert table.base_w[1] / table.base_w[0] == pytest.approx(2.0, rel=0.03)
