"""Output files of a study are checked before its work begins."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wattqueue.errors import InputError, OutputError
from wattqueue_studies.cli.study import eamc, pmc, powercap, prediction
from wattqueue_studies.cli.study._run import require_writable


@contextmanager
def full_disk(room: int = 100_000) -> Iterator[None]:
    """No file may grow beyond ``room`` bytes, as on a disk that runs full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_nothing_is_left_or_changed(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    (old / "report.html").write_text("old")
    require_writable(old)
    require_writable(new)
    assert (old / "report.html").read_text() == "old"
    assert list(tmp_path.rglob("*")) == [old, old / "report.html"]


@pytest.mark.parametrize("study", [eamc.run, pmc.run, powercap.run, prediction.run])
def test_a_full_disk_is_found_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, study: Callable[..., None]
) -> None:
    monkeypatch.setattr("wattqueue_studies.eamc.study.EamcStudy.run", None)
    monkeypatch.setattr("wattqueue_studies.pmc.study.PmcStudy.run", None)
    monkeypatch.setattr("wattqueue_studies.powercap.study.PowercapStudy.run", None)
    monkeypatch.setattr("wattqueue_studies.prediction.study.PredictionStudy.run", None)
    target = tmp_path / "out"
    with full_disk(), pytest.raises(OutputError) as caught:
        study(out=target)
    assert caught.value.where == target
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for wrong in (tmp_path / "file", tmp_path / "file" / "x", Path("/proc/x")):
        with pytest.raises(OutputError) as caught:
            require_writable(wrong)
        assert caught.value.where == wrong


def test_numbers_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        powercap.run(days=float("nan"), folder=tmp_path)
    assert caught.value.where == "--days"
