"""Local times of a whole year, through clock changes in both directions, come back as the seconds that they were."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from wattqueue.formats.slurm.sacct import read_sacct
from wattqueue.formats.workload_format import ReadOptions
from wattqueue.model.jobs import Floats

HEADER = "JobID|Submit|Start|End|ElapsedRaw|NNodes"
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/St_Johns")
"""No change, changes at 01:00 UTC, at local 02:00, none with half an hour, half an hour in the south, 30 min offset."""


def year(number: int, zone: str) -> tuple[Floats, Floats, Floats]:
    """Submission, start and end of jobs through a year, many of them around each clock change."""
    begin = datetime(number, 1, 1, tzinfo=UTC).timestamp()
    rng = np.random.default_rng(number)
    hours = begin + 3600.0 * np.arange(24 * 366)
    offsets = np.array([_offset_s(time_s, zone) for time_s in hours])
    changes = hours[1:][np.diff(offsets) != 0]
    assert len(changes) == (0 if zone in ("UTC", "Asia/Kolkata") else 2)
    near = [change + np.arange(-3 * 3600.0, 3 * 3600.0, 300.0) for change in changes]
    submit = np.sort(np.concatenate([hours[::6] + rng.integers(0, 3600, len(hours[::6])), *near]))
    start = np.asarray(submit + rng.integers(0, 5400, len(submit)), np.float64)
    return submit, start, np.asarray(start + rng.integers(1, 9000, len(submit)), np.float64)


def _offset_s(time_s: float, zone: str) -> float:
    shift = datetime.fromtimestamp(time_s, ZoneInfo(zone)).utcoffset()
    assert shift is not None
    return shift.total_seconds()


def local(time_s: float, zone: str) -> str:
    """A time as Slurm prints it: local, without an offset."""
    return datetime.fromtimestamp(time_s, ZoneInfo(zone)).strftime("%Y-%m-%dT%H:%M:%S")


def twice(time_s: Floats, zone: str) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Where the clock shows a time twice."""
    there = [datetime.fromtimestamp(one, ZoneInfo(zone)) for one in time_s.tolist()]
    return np.array([one.replace(fold=0).timestamp() != one.replace(fold=1).timestamp() for one in there])


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("number", [2016, 2026])
def test_a_year_of_local_times(tmp_path: Path, zone: str, number: int) -> None:
    submit, start, end = year(number, zone)
    path = tmp_path / "year.psv"
    rows = [
        f"{i + 1}|{local(a, zone)}|{local(b, zone)}|{local(c, zone)}|{c - b:.0f}|1"
        for i, (a, b, c) in enumerate(zip(submit.tolist(), start.tolist(), end.tolist(), strict=True))
    ]
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    workload = read_sacct(path, ReadOptions(time_zone=zone))
    jobs = workload.jobs
    order = np.argsort(np.asarray(jobs.job_id, np.int64))
    assert len(jobs) == len(submit)
    assert jobs.start_s is not None
    read_submit, read_start = jobs.submit_s[order], jobs.start_s[order]
    np.testing.assert_array_equal(jobs.runtime_s[order], end - start)
    assert (read_start >= read_submit).all()
    # Only times that the clock shows twice can be misread: by the length of the change, as the first pass.
    for read, true in ((read_submit, submit), (read_start, start)):
        off = read != true
        assert not (off & ~twice(true, zone)).any()
        assert set((true - read)[off].tolist()) <= {3600.0, 1800.0}
    notes = " ".join(workload.notes)
    assert ("in the hour that the clock shows twice" in notes) >= bool((read_submit != submit).any())
    assert "differs by an hour" not in notes
    assert "suspended" not in notes
    # where both other times are known exactly, the start is decided
    sure = ~twice(end, zone)
    np.testing.assert_array_equal(read_start[sure], start[sure])


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_a_zone_that_is_not_stated_shifts_times_alone(tmp_path: Path, zone: str) -> None:
    """Read as UTC, run times stay what they were, and what ran over a clock change is a remark."""
    submit, start, end = year(2026, zone)
    path = tmp_path / "year.psv"
    rows = [
        f"{i + 1}|{local(a, zone)}|{local(b, zone)}|{local(c, zone)}|{c - b:.0f}|1"
        for i, (a, b, c) in enumerate(zip(submit.tolist(), start.tolist(), end.tolist(), strict=True))
    ]
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    workload = read_sacct(path, ReadOptions())
    order = np.argsort(np.asarray(workload.jobs.job_id, np.int64))
    np.testing.assert_array_equal(workload.jobs.runtime_s[order], end - start)
    assert "times have no zone" in " ".join(workload.notes)
    assert "differs by an hour" in " ".join(workload.notes)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+05:30"])
def test_a_leap_second_is_the_second_after_it(tmp_path: Path, zone: str) -> None:
    """POSIX time has none: 23:59:60 and the following 00:00:00 are the same instant."""
    path = tmp_path / "leap.psv"
    day, clock = {"UTC": ("2016-12-31", "23:59"), "Europe/Berlin": ("2017-01-01", "00:59")}.get(
        zone, ("2017-01-01", "05:29")
    )
    path.write_text(f"{HEADER}\n7|{day}T{clock}:60|{day}T{clock}:60|1483229400|600|1\n8|{day} {clock}:60|1|1|600|1\n")
    workload = read_sacct(path, ReadOptions(time_zone=zone))
    assert workload.jobs.submit_s.tolist() == [1_483_228_800.0] * 2
    assert workload.jobs.runtime_s.tolist() == [600.0] * 2
