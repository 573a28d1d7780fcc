"""Any set of chips from a file that states its columns: names, watts or times or both."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install 'wattqueue[ml]'")

from wattqueue.errors import InputError
from wattqueue_studies.chips.chip_sets import ChipSetStudy, pairs_of, read_chip_set
from wattqueue_studies.cli.study import chips

HEAD = "node,code,w,ms"


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The width of intervals is the frame's business."""
    monkeypatch.setattr("wattqueue_studies.frame.samples.RESAMPLES", 40)


def written(folder: Path, columns: str, *, nodes: int = 20, repeats: int = 3) -> Path:
    """Write runs of two codes on nodes whose watts have one factor for both, and the file of columns."""
    rng = np.random.default_rng(7)
    factor = 1 + 0.05 * rng.standard_normal(nodes)
    rows = [
        f"n{k:02},{code},{100 * factor[k] * (1 + 0.001 * rng.standard_normal()):.3f},{1000 + k}"
        for code in ("cg", "lu")
        for k in range(nodes)
        for _ in range(repeats)
    ]
    (folder / "runs.csv").write_text("\n".join([HEAD, *rows]) + "\n", encoding="utf-8")
    path = folder / "set.toml"
    path.write_text(f'name = "nodes"\nfile = "runs.csv"\nchip = "node"\n{columns}\n', encoding="utf-8")
    return path


def test_columns_are_those_that_the_file_states(tmp_path: Path) -> None:
    path = written(tmp_path, 'app = "code"\nwatts = "w"\ntime = "ms"\ntime_unit_s = 0.001')
    stated, runs = read_chip_set(path)
    assert stated.name == "nodes"
    assert [(one.app, len(one.chips), len(one.chip)) for one in runs] == [("cg", 20, 60), ("lu", 20, 60)]
    assert runs[0].time_s[0] == 1.0
    assert runs[0].watts[0] == pytest.approx(100.0, abs=20.0)
    (pair,) = pairs_of(runs)
    assert pair.known(0) == ("watts", "time")


def test_watts_alone_are_ranked_and_nothing_is_simulated(tmp_path: Path) -> None:
    report = ChipSetStudy(written(tmp_path, 'app = "code"\nwatts = "w"')).run()
    text = " ".join(" ".join(report.lines()).split())
    assert "watts of cg - watts of lu" in text
    assert "Saved watts" in text
    assert "Saved time" not in text
    assert "time" not in {line.split()[0] for line in report.lines() if line}
    document = json.loads(json.dumps(report.document(), allow_nan=False))
    assert document["spread"][0]["time_cv_percent"] is None
    assert document["spread"][0]["watts_cv_percent"] == pytest.approx(5.0, abs=2.0)
    assert "Without both watts and times no policy is simulated." in report.html()
    assert max(map(len, report.lines())) <= 80


def test_times_alone_and_one_application_for_all(tmp_path: Path) -> None:
    path = written(tmp_path, 'application = "hpl"\ntime = "ms"')
    text = " ".join(ChipSetStudy(path).run().lines())
    assert "hpl" in text
    assert pairs_of(read_chip_set(path)[1]) == []


def test_chips_with_one_run_tell_no_noise(tmp_path: Path) -> None:
    path = written(tmp_path, 'app = "code"\nwatts = "w"', repeats=1)
    (pair,) = pairs_of(read_chip_set(path)[1])
    assert not pair.repeated
    text = " ".join(" ".join(ChipSetStudy(path).run().lines()).split())
    assert "own watts" not in text
    assert "watts of cg" in text


@pytest.mark.compiled
def test_watts_and_times_are_simulated(tmp_path: Path) -> None:
    path = written(tmp_path, 'app = "code"\nwatts = "w"\ntime = "ms"\ntime_unit_s = 0.001')
    chips.run(path, draws=1, out=tmp_path / "out", workers=1)
    text = (tmp_path / "out" / "tables.md").read_text(encoding="utf-8")
    assert "slurm-vtp" in text


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ('app = "code"', "watts"),
        ('watts = "w"', "app"),
        ('app = "code"\nwatts = "power"', "power"),
        ('app = "code"\nwatts = "w"\ntime_unit_s = 0.0', "time_unit_s"),
        ('app = "code"\nwats = "w"', "wats"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, columns: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        read_chip_set(written(tmp_path, columns))
    assert said in str(refused.value)
    assert ".toml" in str(refused.value.where) or ".csv" in str(refused.value.where)


def test_what_belongs_to_the_pal_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        chips.run(written(tmp_path, 'app = "code"\nwatts = "w"'), factors=tmp_path / "f.csv")
