"""Cells of any kind: each is run once, rows stand in the order of the grid."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.campaign.cluster import ROOT
from wattqueue.campaign.cell import UNRELATED, Row, key_of
from wattqueue.campaign.result_store import open_result_store
from wattqueue.campaign.run import run_cells
from wattqueue.campaign.shared import Shared
from wattqueue.errors import CampaignError, InputError, OutputError
from wattqueue.formats.results import results_frame
from wattqueue.model.jobs import Jobs
from wattqueue.model.profiles import PowerProfiles


@dataclass(frozen=True)
class Square:
    """A cell that leaves a mark for every time it is performed."""

    number: int
    marks: str

    def __str__(self) -> str:
        return f"square of {self.number}"

    def identity(self) -> Mapping[str, object]:
        return {"number": self.number}

    def perform(self, shared: Shared) -> Row:
        if self.number < 0:
            raise InputError("a negative number", where="here")
        with (Path(self.marks) / f"{self.number}").open("a") as mark:
            mark.write("x")
        return {"number": self.number, "square": float(self.number**2)}


def squares(folder: Path, numbers: range | list[int]) -> list[Square]:
    folder.mkdir(exist_ok=True)
    return [Square(i, str(folder)) for i in numbers]


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_stand_in_order_and_nothing_is_done_twice(tmp_path: Path, workers: int) -> None:
    cells = squares(tmp_path / "marks", [3, 1, 2, 1])
    frame = run_cells(cells, store=tmp_path / "store", workers=workers)
    assert frame["square"].to_list() == [9.0, 1.0, 4.0, 1.0]
    more = run_cells(squares(tmp_path / "marks", range(1, 6)), store=tmp_path / "store", workers=workers)
    assert more["number"].to_list() == [1, 2, 3, 4, 5]
    assert {p.name: p.read_text() for p in (tmp_path / "marks").iterdir()} == dict.fromkeys("12345", "x")


def test_many_open_files_are_no_obstacle(tmp_path: Path) -> None:
    """Pipes of workers may have numbers that ``select`` cannot take: mapped tables hold a file for each column."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1_300:
        pytest.skip(f"this system lets a process open {hard} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1_300), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_050)]
    try:
        assert max(held) >= 1_024
        found = run_cells(squares(tmp_path / "marks", [3, 1]), workers=2)
        assert found["square"].to_list() == [9.0, 1.0]
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_run_that_fails_lets_the_others_go_on(tmp_path: Path) -> None:
    with pytest.raises(CampaignError) as caught:
        run_cells(squares(tmp_path / "marks", [1, -1, 2]), store=tmp_path / "store", workers=1)
    assert caught.value.where == "square of -1"
    assert "a negative number" in caught.value.what
    assert len((tmp_path / "store" / "finished.jsonl").read_text().splitlines()) == 2


def test_shared_tables_come_back_as_they_were(tmp_path: Path) -> None:
    shared = Shared(tmp_path)
    profiles = PowerProfiles.from_samples([[100.0, 200.0], [], [150.0]])
    jobs = Jobs.build(
        [0.0, 1.0, 2.0],
        [1, 2, 3],
        [10.0, 20.0, 30.0],
        user=["a", None, "b"],
        job_id=np.array(["x", "y", "z"], object),
        mean_power_w=[120.0, np.nan, 150.0],
        profiles=profiles,
        origin="generated",
        extra={"alone": np.array(["yes", "", "no"], object)},
    )
    name = shared.put_jobs(jobs)
    assert shared.put_jobs(jobs) == name
    back = shared.jobs(name)
    assert back.origin == "generated"
    assert back.user.values().tolist() == ["a", "", "b"]
    assert back.extra["alone"].tolist() == ["yes", "", "no"]
    assert back.job_id.tolist() == ["x", "y", "z"]
    for column in ("submit_s", "nodes", "walltime_s", "mean_power_w"):
        assert np.array_equal(getattr(back, column), getattr(jobs, column), equal_nan=True)
    assert back.profiles is not None
    assert back.profiles.samples_w(0, 40.0).tolist() == [100.0, 200.0]


def test_columns_are_mapped_and_tasks_are_small(tmp_path: Path) -> None:
    shared = Shared(tmp_path)
    jobs = Jobs.build(np.arange(100_000.0), np.ones(100_000), np.ones(100_000))
    opened = shared.jobs(shared.put_jobs(jobs))
    assert isinstance(opened.submit_s.base, np.memmap) or isinstance(opened.submit_s, np.memmap)
    assert opened.submit_s.flags.writeable
    assert len(pickle.dumps((0, Square(1, "marks"), shared))) < 1_000


def test_a_key_holds_class_values_and_program(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Square(1, "a"), Square(2, "a")
    assert key_of(one) == key_of(Square(1, "elsewhere"))
    assert key_of(one) != key_of(other)
    assert asdict(one)["number"] == 1
    before = key_of(one)
    monkeypatch.setattr("wattqueue.campaign.cell.program", lambda: "wattqueue 99")
    assert key_of(one) != before


@dataclass(frozen=True)
class Dying(Square):
    """A cell that kills its worker: ``times`` times, then does its work."""

    times: int = 1

    def perform(self, shared: Shared) -> Row:
        died = Path(self.marks) / f"died-{self.number}"
        before = len(died.read_text()) if died.exists() else 0
        if before < self.times:
            died.write_text("x" * (before + 1))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().perform(shared)


def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    cells: list[Square] = squares(marks, range(1, 8))
    cells[3] = Dying(4, str(marks))
    store = tmp_path / "store"
    assert run_cells(cells, store=store, workers=2)["square"].to_list() == [i * i for i in range(1, 8)]
    assert (marks / "died-4").read_text() == "x"


def test_workers_that_always_die_end_the_campaign(tmp_path: Path) -> None:
    cells: list[Square] = squares(tmp_path / "marks", range(1, 4))
    cells[0] = Dying(1, str(tmp_path / "marks"), times=99)
    with pytest.raises(CampaignError) as caught:
        run_cells(cells, store=tmp_path / "store", workers=2)
    assert str(caught.value.where).startswith("square of ")
    assert "3 times" in caught.value.what


def test_a_torn_line_is_left_out_and_done_again(tmp_path: Path) -> None:
    store, marks = tmp_path / "store", tmp_path / "marks"
    run_cells(squares(marks, [1, 2, 3]), store=store, workers=1)
    kept = store / "finished.jsonl"
    whole = kept.read_bytes()
    lines = whole.splitlines(keepends=True)
    kept.write_bytes(lines[0] + b"\0" * 20 + b"\n" + lines[2][:-5])
    frame = run_cells(squares(marks, [1, 2, 3]), store=store, workers=1)
    assert frame["number"].to_list() == [1, 2, 3]
    assert {p.name: len(p.read_text()) for p in marks.iterdir()} == {"1": 1, "2": 2, "3": 2}
    run_cells(squares(marks, [1, 2, 3]), store=store, workers=1)
    assert (marks / "1").read_text() == "x"


def test_a_full_disk_takes_back_the_half_line(tmp_path: Path) -> None:
    """The kernel writes a part of the last line, then refuses: as a disk does that runs full."""
    row: Row = {"text": "x" * 1000, "figure": 0.1}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_result_store(tmp_path) as store:
        store.put("one", row)
        one = (tmp_path / "finished.jsonl").read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(one) + 300, hard))
        try:
            with pytest.raises(OutputError) as caught:
                store.put("two", row)
            assert caught.value.where == tmp_path / "finished.jsonl"
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (tmp_path / "finished.jsonl").read_bytes() == one
    with open_result_store(tmp_path) as store:
        assert store.rows == {"one": row}


def test_a_campaign_that_keeps_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(CampaignError):
        run_cells(squares(tmp_path / "marks", [-1]), store=tmp_path / "new", workers=1)
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    with pytest.raises(CampaignError):
        run_cells(squares(tmp_path / "marks", [-1]), store=tmp_path / "old", workers=1)
    assert list((tmp_path / "old").iterdir()) == []


def test_one_campaign_a_folder(tmp_path: Path) -> None:
    with open_result_store(tmp_path):
        with pytest.raises(OutputError) as caught, open_result_store(tmp_path):
            pass
        assert caught.value.where == tmp_path


@given(st.dictionaries(st.text(min_size=1), st.none() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False)))
def test_rows_come_back_to_the_last_bit(row: Row) -> None:
    with tempfile.TemporaryDirectory() as name:
        with open_result_store(Path(name)) as store:
            store.put("key", row)
        with open_result_store(Path(name)) as store:
            assert store.rows["key"] == row
            assert [type(v) for v in store.rows["key"].values()] == [type(v) for v in row.values()]


def test_columns_of_results_have_the_kind_of_all_rows() -> None:
    rows: list[Row] = [{"a": 1, "b": None, "c": None, "d": [1.0]}, {"a": 2, "b": 1, "c": 0.5, "d": []}]
    rows.append({"a": 3, "e": "x"})
    frame = results_frame(rows)
    assert [str(t) for t in frame.dtypes] == ["Int64", "Int64", "Float64", "List(Float64)", "String"]
    assert frame["c"].to_list() == [None, 0.5, None]
    assert str(results_frame([{"a": 1, "b": None}, {"a": 0.5, "b": None}]).dtypes) == "[Float64, Float64]"


def test_errors_of_workers_come_back_whole() -> None:
    error = InputError("what", where="here", hint="so")
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(back) is InputError
    assert str(back) == str(error) == "here: what (so)"


def test_another_program_in_the_middle_ends_the_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wattqueue.campaign.backends.program", lambda: "wattqueue 99")
    with pytest.raises(CampaignError) as caught:
        run_cells(squares(tmp_path / "marks", [1, 2]), store=tmp_path / "store", workers=2)
    assert str(caught.value.where).startswith("a worker on ")
    assert "wattqueue 99" in caught.value.what


@dataclass(frozen=True)
class Own(Square):
    """A cell that does something of its own."""

    what: str = ""

    def perform(self, shared: Shared) -> Row:
        if self.what == "print":
            sys.stdout.write("words " * 1_000_000)
        elif self.what == "raise":
            raise OddError(1, 2)
        return {"number": self.number, "pid": os.getpid()}


class OddError(Exception):
    """An exception that cannot be pickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def test_what_a_cell_prints_is_no_result(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    frame = run_cells([Own(i, "", "print") for i in range(4)], workers=2)
    assert frame["number"].to_list() == [0, 1, 2, 3]
    assert frame["pid"].n_unique() == 2, "workers are kept"
    assert capfd.readouterr().out == ""


def test_a_defect_of_a_cell_comes_back_with_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as caught:
        run_cells([Own(1, "", "raise"), Own(2, "")], workers=2)
    assert str(caught.value) == "OddError: 1 and 2"
    assert "raise OddError(1, 2)" in "".join(caught.value.__notes__)


def test_a_script_without_a_guard_runs_its_own_cells(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    (tmp_path / "mine.py").write_text(
        """
from dataclasses import dataclass
from wattqueue.campaign.run import run_cells

@dataclass(frozen=True)
class Mine:
    number: int
    def identity(self):
        return {"number": self.number}
    def perform(self, shared):
        return {"double": 2 * self.number}

print(run_cells([Mine(1), Mine(2), Mine(3)], workers=2)["double"].to_list())
"""
    )
    done = subprocess.run([sys.executable, str(tmp_path / "mine.py")], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[2, 4, 6]\n", "")


def test_what_shows_only_is_no_part_of_the_program() -> None:
    sources = [path for folder in ("src", "src/wattqueue") for path in (ROOT / folder).iterdir()]
    folders = {path.name for path in sources if (path / "__init__.py").is_file() or path.suffix == ".py"}
    assert folders >= UNRELATED
    assert {"model", "formats", "kernels", "sim", "campaign", "wattqueue_studies"} <= folders - UNRELATED
