"""EAR's coefficient file byte by byte, our CSVs both ways, eacct with either header."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.refusal import refused
from wattqueue.formats.ear.eacct import read_eacct
from wattqueue.formats.ear.files import (
    RECORD,
    read_apps_csv,
    read_coefficients_binary,
    read_coefficients_csv,
    write_coefficients_binary,
    write_coefficients_csv,
)
from wattqueue.model.ear import Coefficients


def c_record(ref_khz: int, khz: int, available: int, *values: float) -> bytes:
    """What a C compiler on x86-64 makes of EAR's struct: 4 bytes of padding after the unsigned int."""
    return struct.pack("=QQI4x6d", ref_khz, khz, available, *values)


def test_a_record_is_72_bytes_and_doubles_start_at_24(tmp_path: Path) -> None:
    assert RECORD.itemsize == 72
    path = tmp_path / "coeffs"
    path.write_bytes(
        c_record(2_400_000, 2_400_000, 1, 1, 0, 0, 1, 0, 0)
        + c_record(2_400_000, 1_200_000, 1, 0.7, -0.2, 3.5, 0.9, 0.001, -0.02)
        + c_record(1_200_000, 2_400_000, 0, 0, 0, 0, 0, 0, 0)
        + c_record(1_200_000, 1_200_000, 1, 1, 0, 0, 1, 0, 0)
    )
    table = read_coefficients_binary(path)
    assert table.frequency_hz.tolist() == [2.4e9, 1.2e9]
    assert table.available.tolist() == [[True, True], [False, True]]
    assert table.values[0, 1].tolist() == [0.7, -0.2, 3.5, 0.9, 0.001, -0.02]
    again = tmp_path / "again"
    write_coefficients_binary(again, table)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("size", [0, 71, 73, 100])
def test_a_file_of_another_size_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "coeffs"
    path.write_bytes(b"\0" * size)
    with refused(path, str(size), "72"):
        read_coefficients_binary(path)


@given(st.integers(1, 5), st.integers(0, 1_000))
def test_both_files_give_back_what_was_written(count: int, seed: int) -> None:
    import tempfile

    rng = np.random.default_rng(seed)
    ghz = np.sort(rng.choice(np.arange(10, 40), count, replace=False))[::-1] / 10
    pairs = [(a, b) for a in ghz for b in ghz]
    ref, target = np.array(pairs).T * 1e9
    table = Coefficients.of_pairs(ref, target, rng.random(len(pairs)) < 0.7, rng.normal(size=(len(pairs), 6)))
    with tempfile.TemporaryDirectory() as folder:
        binary, text = Path(folder) / "b", Path(folder) / "t"
        write_coefficients_binary(binary, table)
        write_coefficients_csv(text, {"n1": table, "n2": table})
        read = read_coefficients_csv(text)
        assert list(read) == ["n1", "n2"]
        for again in (read_coefficients_binary(binary), read["n2"]):
            np.testing.assert_allclose(again.frequency_hz, table.frequency_hz)
            assert (again.available == table.available).all()
            assert (again.values == table.values).all()


def test_csv_errors_name_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("module,f_ref_ghz,f_target_ghz,available,A,B,C,D,E,F\np1,2.7,2.7,1,1,0,x,1,0,0\n")
    with refused(f"{path}:2", "field C", "'x'"):
        read_coefficients_csv(path)
    path.write_text("module,f_ref_ghz,f_target_ghz,available,A,B,C,D,E,F\np1,1e300,2.7,1,1,0,0,1,0,0\n")
    with refused(f"{path}:2", "f_ref_ghz"):
        read_coefficients_csv(path)
    path.write_text("module,f_ref_ghz\np1,2.7\n")
    with refused(f"{path}:1", "f_target_ghz"):
        read_coefficients_csv(path)
    path.write_text("app_id,module_index,time_s,power_w,cpi,tpi\n1,0,5,300,0.5,1\n1,0,5,300,0.5,1\n")
    with refused(f"{path}:3", "application 1"):
        read_apps_csv(path)
    path.write_text("app_id,module_index,time_s,power_w,cpi,tpi\n1,0,5,300,0.5\n")
    with refused(f"{path}:2", "6 cells"):
        read_apps_csv(path)


def test_an_application_that_a_module_has_not_run_is_nan(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("app_id,module_index,time_s,power_w,cpi,tpi\nlu,0,5,300,0.5,1\nep,1,6,310,0.6,2\n")
    apps, tables = read_apps_csv(path)
    assert apps == ("lu", "ep")
    assert tables[0].power_w[0] == 300
    assert np.isnan(tables[0].power_w[1])
    assert tables[1].tpi[1] == 2


def test_the_published_files(data_dir: Path) -> None:
    tables = read_coefficients_csv(data_dir / "eamc/eamc_coefficients_tidy.csv")
    ghz = {name: np.round(t.targets_hz(t.nominal_hz) / 1e9, 1).tolist() for name, t in tables.items()}
    assert ghz["p1"] == [2.7, 2.6, 2.5, 2.4, 2.3, 2.2, 2.1, 1.9, 1.8, 1.7, 1.6, 1.5, 1.4, 1.3, 1.2]
    assert ghz["p2"] == [3.1, 3.0, 2.8, 2.7, 2.6, 2.4, 2.3, 2.1, 2.0, 1.9, 1.7, 1.6, 1.5, 1.3, 1.2]
    apps, metrics = read_apps_csv(data_dir / "eamc/eamc_apps.csv")
    assert apps == tuple("12345678")
    assert metrics[1].cpi[0] == pytest.approx(0.636, abs=1e-3)


OLD = "NODENAME;JOB_ID;USER;JNAME;AVG-FREQ;TIME;CPI;TPI;GBS;DC-NODE-POWER\n"
NEW = "JOBID;STEPID;USERID;JOBNAME;ENERGY_TAG;NODENAME;AVG_CPUFREQ_KHZ;TIME_SEC;CPI;TPI;MEM_GBS;DC_NODE_POWER_W\n"


def test_eacct_with_the_old_and_the_new_header(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text(OLD + "n1;17;eve;lu.C;2.40;52.5;0.67;19.5;70.9;386.4\n")
    old = read_eacct(path)
    path.write_text(NEW + "17;0;eve;run.sh;lu.C;n1;2400000;52.5;0.67;19.5;70.9;386.4\n")
    new = read_eacct(path)
    for got in (old, new):
        assert (got.job_id[0], got.user[0], got.app[0], got.node[0]) == ("17", "eve", "lu.C", "n1")
        assert got.frequency_hz[0] == pytest.approx(2.4e9)
        assert [c[0] for c in (got.metrics.time_s, got.metrics.cpi, got.metrics.tpi, got.metrics.power_w)] == [
            52.5, 0.67, 19.5, 386.4,
        ]  # fmt: skip
        assert got.gbs[0] == 70.9


def test_eacct_rows_that_the_library_did_not_measure_are_left_out_and_named(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text(OLD + "n1;1;eve;a;2.4;52;0;0;0;300\nn1;2;eve;a;2.4;52;0.5;1;5;300\nn1;3;eve;a;2.4;NA;1;1;1;1\n")
    got = read_eacct(path)
    assert got.job_id.tolist() == ["2"]
    assert got.left_out == 2
    assert [r.split(":")[0] for r in got.reasons] == ["line 2", "line 4"]


@pytest.mark.parametrize("cpi", ["1e300", "inf", "-1", "nan", "x", "1e13"])
def test_eacct_figures_that_no_program_has_are_not_stated(tmp_path: Path, cpi: str) -> None:
    path = tmp_path / "e.csv"
    path.write_text(
        OLD + f"n1;17;eve;lu.C;2.40;52.5;{cpi};19.5;70.9;386.4\nn1;18;eve;lu.C;2.40;52.5;1;19.5;1e300;386.4\n"
    )
    got = read_eacct(path)
    assert list(got.job_id) == ["18"]
    assert np.isnan(got.gbs[0])


def test_eacct_that_is_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("a;b\n1;2\n")
    with refused(f"{path}:1", "TIME_SEC, CPI, TPI, DC_NODE_POWER_W"):
        read_eacct(path)
    path.write_text(OLD + "n1;1;eve\n")
    with refused(f"{path}:2", "3 cells", "10"):
        read_eacct(path)
