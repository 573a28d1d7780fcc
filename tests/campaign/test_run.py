"""Cells of any kind: each is run once, rows stand in the order of the grid."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pytest

from wattqueue.campaign.cell import Row, key_of
from wattqueue.campaign.run import run_cells
from wattqueue.campaign.shared import Shared
from wattqueue.errors import CampaignError, InputError
from wattqueue.model.jobs import Jobs
from wattqueue.model.profiles import Profiles


@dataclass(frozen=True)
class Square:
    """A cell that leaves a mark for every time it is performed."""

    number: int
    marks: str

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
    frame = run_cells(cells, shelf=tmp_path / "shelf", workers=workers)
    assert frame["square"].to_list() == [9.0, 1.0, 4.0, 1.0]
    more = run_cells(squares(tmp_path / "marks", range(1, 6)), shelf=tmp_path / "shelf", workers=workers)
    assert more["number"].to_list() == [1, 2, 3, 4, 5]
    assert {p.name: p.read_text() for p in (tmp_path / "marks").iterdir()} == dict.fromkeys("12345", "x")


def test_a_run_that_fails_lets_the_others_go_on(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match=r"run 2 \(number=-1\): .*a negative number"):
        run_cells(squares(tmp_path / "marks", [1, -1, 2]), shelf=tmp_path / "shelf", workers=1)
    assert len((tmp_path / "shelf" / "finished.jsonl").read_text().splitlines()) == 2


def test_shared_tables_come_back_as_they_were(tmp_path: Path) -> None:
    shared = Shared(tmp_path)
    profiles = Profiles.from_samples([[100.0, 200.0], [], [150.0]])
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
