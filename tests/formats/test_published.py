"""Job tables that other projects publish: PM100, F-DATA, Batsim; and the choice of the reader."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.formats.refusal import refused
from wattqueue.errors import InputError
from wattqueue.formats.pm100.jobs import read_pm100
from wattqueue.formats.read import ReadOptions, read_workload, recognised
from wattqueue.formats.table.job_table import read_table, write_table
from wattqueue.formats.workload_format import WorkloadFile
from wattqueue.formats.workloads.fdata import read_fdata
from wattqueue.model.bounds import DURATION_S, TIME_S, UNITS

MAY = datetime(2020, 5, 31, 22, 0, tzinfo=UTC)


def pm100(tmp_path: Path, **more: Any) -> Path:
    """Six jobs in PM100's columns; watts of the first three after rows of the data set."""
    n = 6
    columns: dict[str, Any] = {
        "job_id": [2913594, 3047960, 680209, 4, 5, 6],
        "user_id": [310, 379, 8, 8, 8, 8],
        "submit_time": [MAY + timedelta(minutes=i) for i in range(n)],
        "start_time": [MAY + timedelta(hours=1)] * n,
        "end_time": [MAY + timedelta(hours=2)] * n,
        "run_time": [3600, 1133, 3, 3600, 0, 3600],
        "time_limit": ["60", "INFINITE", "1440", "4294967295", "60", "60"],
        "num_nodes_alloc": [16, 1, 1, 1, 1, 1],
        "num_cores_alloc": [2048, 32, 128, 64, 128, 32],
        "num_gpus_alloc": [64, 4, 4, 0, 4, 4],
        "nodes": ["[900, 901, 902, 903, 904, 905, 906, 907, 908, 909, 910, 911, 912, 913, 914, 915]", "[416]", "[609]",
                  "[416]", "[1]", "[2]"],
        "partition": ["1"] * n,
        "job_state": ["CANCELLED", "FAILED", *["COMPLETED"] * 4],
        "shared": ["OK"] * n,
        "node_power_consumption": [[7970, 8450, 8460], [860, 860, 340], [920], [0, -5, 400], [500], [1]],
    } | more  # fmt: skip
    path = tmp_path / "job_table.parquet"
    pl.DataFrame(columns, strict=False).write_parquet(path)
    return path


def test_pm100_watts_are_of_one_node(tmp_path: Path) -> None:
    workload = read_pm100(pm100(tmp_path))
    jobs = workload.jobs
    assert jobs.job_id.tolist() == [2913594, 3047960, 680209, 4, 6]
    assert [(line, why) for line, _, why in workload.unusable.rows()] == [(5, "no positive run_time")]
    assert jobs.mean_power_w is not None
    assert jobs.max_power_w is not None
    expected = [(7970 + 8450 + 8460) / 3 / 16, 2060 / 3, 920, 400, np.nan]
    assert np.allclose(jobs.mean_power_w, expected, equal_nan=True)
    assert np.allclose(jobs.max_power_w, [8460 / 16, 860, 920, 400, np.nan], equal_nan=True)
    assert jobs.walltime_s.tolist() == [3600.0, 1133.0, 86400.0, 3600.0, 3600.0]
    assert jobs.submit_s[0] == MAY.timestamp()
    assert jobs.extra["alone"].tolist() == ["yes", "no", "yes", "no", "unknown"]
    assert jobs.extra["energy_quality"].tolist() == ["measured", "attributed", "measured", "attributed", ""]
    assert jobs.extra["energy_j"][0] == pytest.approx((7970 + 8450 + 8460) / 3 * 3600)
    assert "2 jobs have samples of 0 W or less" in " ".join(workload.notes)


def test_pm100_jobs_that_could_not_share_were_alone(tmp_path: Path) -> None:
    path = pm100(tmp_path, shared=["0"] * 6, nodes=[[i] for i in range(6)], num_cores_alloc=[1] * 6)
    assert read_pm100(path).jobs.extra["alone"].tolist() == ["yes"] * 5


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("job_id", None, "no job_id"),
        ("submit_time", datetime(1970, 1, 1, tzinfo=UTC), ""), ("submit_time", None, "no submit_time"),
        ("run_time", 0, "no positive run_time"), ("run_time", 1, ""), ("run_time", None, "no positive run_time"),
        ("num_nodes_alloc", 0, "no nodes"), ("num_nodes_alloc", UNITS.high, ""),
        ("num_nodes_alloc", UNITS.high + 1, f"size outside {UNITS.text} units"),
    ],
)  # fmt: skip
def test_pm100_rows_at_the_limits_of_what_can_be_used(tmp_path: Path, column: str, value: Any, reason: str) -> None:
    path = pm100(tmp_path)
    frame = pl.read_parquet(path).head(2).drop("end_time")
    frame.with_columns(pl.Series(column, [value, frame[column][1]], frame.schema[column])).write_parquet(path)
    workload = read_pm100(path)
    assert [row[2] for row in workload.unusable.rows()] == ([reason] if reason else [])
    assert len(workload.jobs) == 2 - bool(reason)


def test_pm100_limits_of_no_minutes_or_without_an_end_are_none(tmp_path: Path) -> None:
    path = pm100(tmp_path, time_limit=["0", "1", "49999999", "50000000", "-1", "0.5"], run_time=[60] * 6)
    walltime = read_pm100(path, ReadOptions(default_walltime_s=99.0)).jobs.walltime_s
    assert walltime.tolist() == [99.0, 60.0, 49_999_999 * 60.0, 99.0, 99.0, 30.0]


def test_pm100_without_power_or_with_words_for_it(tmp_path: Path) -> None:
    path = tmp_path / "plain.parquet"
    pl.read_parquet(pm100(tmp_path)).drop("node_power_consumption", "nodes", "shared", "start_time").write_parquet(path)
    workload = read_pm100(path)
    assert workload.jobs.mean_power_w is None
    assert "no power" in " ".join(workload.notes)
    path = pm100(tmp_path, node_power_consumption=["[1, 2]"] * 6)
    with refused(path, "node_power_consumption", "String"):
        read_pm100(path)
    pl.read_parquet(path).drop("run_time").write_parquet(path)
    with refused(path, "run_time"):
        read_pm100(path)


def test_the_day_of_marconi100(data_dir: Path) -> None:
    workload = read_workload(data_dir / "jobs/marconi100_jobs_2022-01_gridpilot.parquet")
    assert workload.format == "pm100"
    assert len(workload.jobs) == workload.rows == 1994
    assert workload.jobs.start_s is None
    assert 100_000 < np.ptp(workload.jobs.submit_s) < 120_000
    assert (np.diff(workload.jobs.submit_s) >= 0).all()


def fdata(tmp_path: Path, **more: Any) -> Path:
    columns: dict[str, Any] = {
        "jid": ["a", "b", "c"],
        "usr": ["u1", "u1", "u2"],
        "jnam": ["x", "y", "x"],
        "adt": [MAY, MAY + timedelta(hours=1), MAY],
        "sdt": [MAY + timedelta(hours=2)] * 3,
        "edt": [MAY + timedelta(hours=3)] * 3,
        "elpl": [7200.0, 3600.0, 60.0],
        "duration": [3600.0, 1800.0, 30.0],
        "cnumat": [96, 24, 48],
        "nnuma": [2, 1, 1],
        "econ": [220.0, 50.0, -3.0],
        "avgpcon": [220.0, 100.0, -90.0],
        "maxpcon": [260.0, 120.0, 10.0],
        "freq_alloc": [2000, 2200, 2000],
        "exit state": ["completed", "failed", "completed"],
    } | more
    path = tmp_path / "fdata.parquet"
    pl.DataFrame(columns, strict=False).write_parquet(path)
    return path


def test_fdata_power_is_of_the_job_and_energy_in_watt_hours(tmp_path: Path) -> None:
    workload = read_fdata(fdata(tmp_path))
    jobs = workload.jobs
    assert jobs.job_id.tolist() == ["a", "b"]
    assert jobs.mean_power_w is not None
    assert jobs.max_power_w is not None
    assert jobs.mean_power_w.tolist() == [110.0, 100.0]
    assert jobs.max_power_w.tolist() == [130.0, 120.0]
    assert jobs.extra["energy_j"].tolist() == [220 * 3600.0, 50 * 3600.0]
    assert jobs.extra["energy_quality"].tolist() == ["measured", "attributed"]
    assert jobs.extra["frequency_hz"].tolist() == [2e9, 2.2e9]
    assert jobs.walltime_s.tolist() == [7200.0, 3600.0]
    assert list(workload.unusable.rows()) == [(3, "c", "corrupt: negative power")]


def test_fdata_texts_of_the_submission(tmp_path: Path) -> None:
    jobs = read_fdata(fdata(tmp_path, jobenv_req=["spack", None, "spack"])).jobs
    assert jobs.app.values().tolist() == ["x", "y"]
    assert jobs.extra["job_environment"].tolist() == ["spack", ""]


def test_fdata_with_figures_that_contradict_one_another_or_their_limits(tmp_path: Path) -> None:
    path = fdata(tmp_path, avgpcon=[220.0, 1e300, 90.0], maxpcon=[130.0, 120.0, 95.0], duration=[3600.0, 60.0, 1e300])
    workload = read_fdata(path)
    jobs = workload.jobs
    assert jobs.job_id.tolist() == ["a", "b"]
    assert jobs.mean_power_w is not None
    assert jobs.max_power_w is not None
    assert jobs.mean_power_w[0] == jobs.max_power_w[0] == 110.0
    assert np.isnan(jobs.mean_power_w[1])
    assert [note[:2] for note in workload.notes] == ["1 ", "1 "]
    assert [row[1] for row in workload.unusable.rows()] == ["c"]


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("jid", "", "no jid"),
        ("avgpcon", -0.001, "corrupt: negative power"), ("avgpcon", 0.0, ""),
        ("adt", datetime(1970, 1, 1, tzinfo=UTC), ""),
        ("duration", 0.0, "no positive duration"), ("duration", DURATION_S.low, ""),
        ("nnuma", 0, "no nodes"), ("nnuma", UNITS.high, ""),
        ("nnuma", UNITS.high + 1, f"size outside {UNITS.text} units"),
    ],
)  # fmt: skip
def test_fdata_rows_at_the_limits_of_what_can_be_used(tmp_path: Path, column: str, value: Any, reason: str) -> None:
    path = fdata(tmp_path)
    frame = pl.read_parquet(path).head(2)
    frame.with_columns(pl.Series(column, [value, frame[column][1]], frame.schema[column])).write_parquet(path)
    workload = read_fdata(path)
    assert [row[2] for row in workload.unusable.rows()] == ([reason] if reason else [])
    assert len(workload.jobs) == 2 - bool(reason)


def test_fdata_without_watts_was_not_measured(tmp_path: Path) -> None:
    jobs = read_fdata(fdata(tmp_path, avgpcon=[0.0, 1.0, 0.0], maxpcon=[0.0, 1.0, 0.0], econ=[0.0, 0.0, None])).jobs
    assert jobs.job_id.tolist() == ["a", "c", "b"]
    assert jobs.mean_power_w is not None
    assert jobs.max_power_w is not None
    for watts in (jobs.mean_power_w, jobs.max_power_w):
        np.testing.assert_array_equal(watts, [np.nan, np.nan, 1.0])
    np.testing.assert_array_equal(jobs.extra["energy_j"], [np.nan, np.nan, 1_800.0])


def test_fdata_times_as_text_on_a_local_clock(tmp_path: Path) -> None:
    path = fdata(tmp_path, adt=["2021-03-01 09:00:00"] * 3)
    assert "Asia/Tokyo" in " ".join(read_fdata(path).notes)
    assert (
        read_fdata(path, ReadOptions(time_zone="Asia/Tokyo")).jobs.submit_s[0]
        == datetime(2021, 3, 1, tzinfo=UTC).timestamp()
    )


def batsim(tmp_path: Path, jobs: list[Any], profiles: Any = None) -> Path:
    path = tmp_path / "workload.json"
    delays = {"ten": {"type": "delay", "delay": 10}, "new": {"type": "DelayProfile", "delay": 20.5},
              "seq": {"type": "composed", "repeat": 2, "seq": ["ten", "new"]},
              "flops": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
              "mixed": {"type": "composed", "seq": ["ten", "flops"]},
              "circle": {"type": "composed", "seq": ["circle"]},
              "nothing": {"type": "delay", "delay": 0}}  # fmt: skip
    path.write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": delays if profiles is None else profiles}))
    return path


def test_batsim_delays_of_both_names_and_sequences(tmp_path: Path) -> None:
    rows = [
        {"id": "w0!1", "subtime": 5, "res": 2, "profile": "ten", "walltime": 60},
        {"id": 2, "subtime": 0, "res": 1, "profile": "new", "walltime": -1},
        {"id": "3", "subtime": 7.5, "res": 4, "profile": "seq"},
    ]
    workload = read_workload(batsim(tmp_path, rows), kind="batsim")
    jobs = workload.jobs
    assert jobs.job_id.tolist() == ["2", "w0!1", "3"]
    assert jobs.submit_s.tolist() == [0.0, 5.0, 7.5]
    assert jobs.runtime_s.tolist() == [20.5, 10.0, 61.0]
    assert jobs.walltime_s.tolist() == [20.5, 60.0, 61.0]
    assert jobs.nodes.tolist() == [1, 2, 4]
    assert jobs.app.names == ("new", "seq", "ten")
    assert "4 resources" in " ".join(workload.notes)


@pytest.mark.parametrize(
    ("key", "value", "used"),
    [
        ("subtime", 0, True), ("subtime", -0.001, False), ("subtime", TIME_S.high, True),
        ("subtime", TIME_S.high * 1.001, False),
        ("res", 1, True), ("res", 0, False), ("res", 1.5, False), ("res", UNITS.high, True),
        ("res", UNITS.high + 1, False),
        ("delay", DURATION_S.low, True), ("delay", DURATION_S.low / 2, False), ("delay", DURATION_S.high, True),
        ("delay", DURATION_S.high * 1.001, False),
    ],
)  # fmt: skip
def test_batsim_jobs_at_the_limits_of_what_can_be_used(tmp_path: Path, key: str, value: float, used: bool) -> None:
    good = {"id": 1, "subtime": 0, "res": 1, "profile": "ten"}
    delay = {"type": "delay", "delay": value if key == "delay" else 10}
    odd = good | {"id": 2, "profile": "odd"} | ({} if key == "delay" else {key: value})
    workload = read_workload(batsim(tmp_path, [good, odd], {"ten": {"type": "delay", "delay": 10}, "odd": delay}))
    assert sorted(map(str, workload.jobs.job_id)) == ["1", "2"][: 1 + used]
    assert [row[1] for row in workload.unusable.rows()] == ([] if used else ["2"])


@pytest.mark.parametrize(
    ("walltime", "read_s"),
    [(DURATION_S.low, DURATION_S.low), (DURATION_S.low / 2, 99.0), (0, 99.0), (DURATION_S.high, DURATION_S.high),
     (DURATION_S.high * 1.001, 99.0)],
)  # fmt: skip
def test_batsim_walltimes_beyond_their_limits_are_none(tmp_path: Path, walltime: float, read_s: float) -> None:
    path = batsim(tmp_path, [{"id": 1, "subtime": 0, "res": 1, "profile": "ten", "walltime": walltime}])
    assert read_workload(path, ReadOptions(default_walltime_s=99.0)).jobs.walltime_s.tolist() == [read_s]


def test_batsim_sequences_have_up_to_ten_thousand_parts(tmp_path: Path) -> None:
    good = {"id": 1, "subtime": 0, "res": 1, "profile": "long"}
    profiles = {"ten": {"type": "delay", "delay": 10}, "long": {"type": "composed", "seq": ["ten"] * 10_000},
                "longer": {"type": "composed", "seq": ["ten"] * 10_001}}  # fmt: skip
    workload = read_workload(batsim(tmp_path, [good, good | {"id": 2, "profile": "longer"}], profiles), kind="batsim")
    assert workload.jobs.runtime_s.tolist() == [100_000.0]
    assert [row[1] for row in workload.unusable.rows()] == ["2"]


def test_batsim_profiles_without_a_fixed_duration_are_refused(tmp_path: Path) -> None:
    good = {"id": 1, "subtime": 0, "res": 1, "profile": "ten"}
    bad: list[Any] = [
        good | {"id": i, "profile": name} for i, name in enumerate(["flops", "mixed", "circle", "nothing", "?"], 2)
    ]
    bad += [good | {"subtime": -1}, good | {"res": 0}, good | {"res": 1.5}, {"subtime": 0}, 5, good | {"subtime": "x"}]
    workload = read_workload(batsim(tmp_path, [good, *bad]), kind="batsim")
    assert workload.jobs.job_id.tolist() == [1]
    assert [line for line, _, _ in workload.unusable.rows()] == list(range(2, 13))
    reasons = [why for _, _, why in workload.unusable.rows()]
    assert "'parallel_homogeneous' has no fixed duration" in reasons[0]
    assert "'parallel_homogeneous' has no fixed duration" in reasons[1]
    path = batsim(tmp_path, bad[:1])
    with refused(path, "'parallel_homogeneous'"):
        read_workload(path, kind="batsim")


@pytest.mark.parametrize(("jobs", "profiles"), [([], {}), ("x", {}), ([{"id": 1}], [])])
def test_batsim_files_that_are_none(tmp_path: Path, jobs: Any, profiles: Any) -> None:
    path = batsim(tmp_path, jobs, profiles)
    with refused(path):
        read_workload(path, kind="batsim")


# The choice of the reader


def kind_of(path: Path) -> str:
    return recognised(WorkloadFile(path)).kind


def test_the_reader_is_chosen_by_what_the_file_holds(tmp_path: Path, data_dir: Path) -> None:
    assert kind_of(data_dir / "swf/KTH-SP2.swf.gz") == "swf"
    assert kind_of(data_dir / "swf/wagap-2013.swf.gz") == "swf"
    assert kind_of(data_dir / "swf/lublin_256_synthetic.swf.gz") == "swf"
    assert kind_of(data_dir / "jobs/schedsim_slurm_trace_sample.psv") == "sacct"
    assert kind_of(data_dir / "jobs/archer2_sacct_job_energy_frequency.csv") == "archer2"
    workload = read_workload(data_dir / "swf/KTH-SP2.swf.gz")
    assert (len(workload.jobs), len(workload.unusable), workload.rows) == (28_481, 8, 28_489)
    assert kind_of(data_dir / "jobs/eurora_historical_jobs_with_pred_power.csv.gz") == "eurora"
    for name in ("README.md", "eamc/eamc_apps.csv", "grid"):
        with pytest.raises(InputError):
            read_workload(data_dir / name)


def test_our_own_table_and_the_others_by_content(tmp_path: Path) -> None:
    jobs = read_pm100(pm100(tmp_path)).jobs
    for name in ("jobs.parquet", "jobs.csv", "jobs.csv.gz"):
        write_table(tmp_path / name, jobs)
        assert kind_of(tmp_path / name) == "table"
        again = read_workload(tmp_path / name)
        assert again.jobs.extra["energy_quality"].tolist() == jobs.extra["energy_quality"].tolist()
        assert again.summary()["energy_measured"] == 2
        assert read_table(tmp_path / name).job_id.tolist() == jobs.job_id.tolist()
    assert kind_of(pm100(tmp_path)) == "pm100"
    assert kind_of(fdata(tmp_path)) == "fdata"
    path = batsim(tmp_path, [{"id": 1, "subtime": 0, "res": 1, "profile": "ten"}])
    assert kind_of(path) == "batsim"
    assert read_workload(path).format == "batsim"
    with refused(None, "'xls'"):
        read_workload(path, kind="xls")


def test_options_reach_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_text("7|2026-09-01T09:00:00|01:00:00|2\n")
    options = ReadOptions(time_zone="+02:00", columns="JobID,Submit,Elapsed,NNodes", default_walltime_s=9000.0)
    jobs = read_workload(path, options).jobs
    assert jobs.submit_s.tolist() == [datetime(2026, 9, 1, 7, tzinfo=UTC).timestamp()]
    assert jobs.walltime_s.tolist() == [9000.0]
    with refused(f"{path}:1", "--columns"):
        read_workload(path)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"hello\nworld\n", b"PAR1junk", b"\x00\x01\x02", b"a,b\n1,2\n"])
def test_files_of_no_format_say_what_is_known(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "what"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_workload(path)


@pytest.mark.parametrize("name", ["run_time", "user_id", "submit_time", "node_power_consumption"])
def test_columns_of_lists_are_refused_by_name(tmp_path: Path, name: str) -> None:
    path = pm100(tmp_path, **{name: [[["a"]]] * 6})
    with refused(path, name):
        read_pm100(path)
