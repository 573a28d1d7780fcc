"""Measured chips: ranks by hand, noise, savings on runs that had no part in a rank, the report and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install 'wattqueue[ml]'")

from tests.program import wattqueue
from wattqueue.errors import InputError
from wattqueue.formats.unit_factors import read_unit_factors
from wattqueue_studies.chips.chip_runs import (
    ChipPair,
    ChipRuns,
    chip_medians,
    chip_pair,
    measured_table,
    read_chip_runs,
)
from wattqueue_studies.chips.ranks import SavingRow, rank_rows, reliability, saving_rows, spearman
from wattqueue_studies.chips.study import ChipsStudy

V100 = "variability/v100"
RUN = ("study", "chips")


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates are tested here, and that intervals exist; their width is the frame's business."""
    monkeypatch.setattr("wattqueue_studies.frame.samples.RESAMPLES", 40)


def runs(app: str, *, seed: int, noise: float = 0.0, chips: int = 60, repeats: int = 6) -> ChipRuns:
    """Chips with one factor for all applications, and noise of the runs that belongs to the application."""
    factor = 1 + 0.05 * np.random.default_rng(1).standard_normal(chips)
    rng = np.random.default_rng(seed)
    chip = np.repeat(np.arange(chips), repeats)
    watts = 200 * factor[chip] * (1 + noise * rng.standard_normal(len(chip)))
    time_s = 1 + 0.01 * rng.standard_normal(len(chip))
    names = tuple(f"c{k:03}" for k in range(chips))
    return ChipRuns(app, names, chip, time_s, watts, np.full(len(chip), 1.5e9), np.full(len(chip), 50.0))


def test_spearman_by_hand() -> None:
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0])) == 1.0
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == -1.0
    assert spearman(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 4.0])) == pytest.approx(0.8)
    assert spearman(np.ones(3), np.arange(3.0)) == 0.0
    assert reliability(np.arange(9.0), np.arange(9.0)) == 1.0
    assert reliability(np.arange(9.0), -np.arange(9.0)) == 0.0


def test_noise_of_the_runs_is_corrected() -> None:
    clean, noisy = (
        chip_pair(runs("a", seed=2, noise=n, chips=200), runs("b", seed=3, noise=n, chips=200)) for n in (0.0, 0.06)
    )
    exact = next(rank_rows(clean))
    assert exact.quantities == ("watts", "watts")
    assert exact.raw.mean == pytest.approx(1.0)
    found = next(rank_rows(noisy))
    assert found.raw.mean < 0.8
    assert found.corrected.mean > 0.9
    assert found.raw.low is not None
    assert found.raw.high is not None
    assert found.raw.low < found.raw.mean < found.raw.high


def savings(pair: ChipPair) -> dict[tuple[str, str, float, str], float]:
    def key(row: SavingRow) -> tuple[str, str, float, str]:
        return row.app, row.quantity, row.share, row.rank

    return {key(row): row.saved.mean for row in saving_rows(pair)}


def test_the_rank_of_one_application_serves_the_other_where_chips_have_one_factor() -> None:
    pair = chip_pair(runs("a", seed=2), runs("b", seed=3))
    found = savings(pair)
    own, foreign = (found["b", "watts", 0.5, rank] for rank in ("own watts", "watts of a"))
    assert own == pytest.approx(foreign)
    watts = np.sort(chip_medians(runs("b", seed=3))[0])
    assert own == pytest.approx(100 * (1 - watts[:30].mean() / watts.mean()))
    assert abs(found["b", "watts", 0.5, "time of a"]) < own / 2
    assert found["a", "watts", 0.25, "own watts"] > found["a", "watts", 0.75, "own watts"] > 0


def test_a_rank_of_noise_saves_nothing_on_other_runs() -> None:
    """Chips that are equal: even runs rank them, odd runs score them."""
    equal = [runs(n, seed=s, noise=0.1, chips=400) for n, s in (("a", 2), ("b", 3))]
    flat = [
        ChipRuns(
            r.app,
            r.chips,
            r.chip,
            r.time_s,
            200 + 5 * np.random.default_rng(k).standard_normal(len(r.chip)),
            r.clock_hz,
            r.temperature_c,
        )
        for k, r in enumerate(equal)
    ]
    found = savings(chip_pair(*flat))
    assert abs(found["b", "watts", 0.5, "own watts"]) < 0.3


def test_few_common_chips_are_refused() -> None:
    other = runs("b", seed=3)
    renamed = ChipRuns(
        "b",
        tuple(f"x{c}" for c in other.chips),
        *[getattr(other, f) for f in ("chip", "time_s", "watts", "clock_hz", "temperature_c")],
    )
    with pytest.raises(InputError):
        chip_pair(runs("a", seed=2), renamed)


def test_a_file_of_runs(tmp_path: Path) -> None:
    path = tmp_path / "bert.csv"
    path.write_text("uuid,cabinet,perf,freq,temp,pwr,mean_pwr\nb,1,200,1530,50.5,150,140\na,1,100,1500,40,90,91\n")
    found = read_chip_runs(path)
    assert (found.app, found.chips) == ("bert", ("a", "b"))
    assert found.chip.tolist() == [1, 0]
    assert found.time_s.tolist() == [0.2, 0.1]
    assert found.watts.tolist() == [140.0, 91.0]
    table = measured_table([found])
    assert table.units == ("a", "b")
    np.testing.assert_allclose(table.base_w * table.factor[0], [91.0, 140.0])
    for row in ("c,1,0,1500,40,90,91\n", ",1,10,1500,40,90,91\n", "c,1,10,1500,40,90,-1\n"):
        path.write_text("uuid,cabinet,perf,freq,temp,pwr,mean_pwr\n" + row)
        with pytest.raises(InputError) as caught:
            read_chip_runs(path)
        assert caught.value.where == f"{path}:2"
    path.write_text("uuid,perf\na,1\n")
    with pytest.raises(InputError):
        read_chip_runs(path)


@pytest.mark.compiled
def test_the_real_chips(data_dir: Path, tmp_path: Path) -> None:
    factors = tmp_path / "factors.csv"
    report = ChipsStudy(data_dir / V100, factors, draws=2).run()
    lines = list(report.lines())
    assert max(map(len, lines)) <= 80
    verdicts = [row["verdict"] for row in report.claims.document()]
    assert verdicts.count("reproduced") == 7
    document = json.loads(json.dumps(report.document(), allow_nan=False))
    assert {row["app"]: row["chips"] for row in document["spread"]} == {
        "sgemm": 392, "pagerank": 172, "bert": 136, "resnet": 336,
    }  # fmt: skip
    assert "measured chips" in report.html()
    pal = next(row for row in report.claims.document() if row["published"] == -42)
    assert pal["verdict"] == "not comparable"
    assert -10 < pal["ours"] < 0
    metrics = {row["metric"] for row in document["simulations"]}
    assert metrics >= {"turnaround_s", "over_percent", "dropped"}
    assert len(document["simulations"]) == (20 * 9 + 12 * 5) * len(metrics)
    table = read_unit_factors(factors)
    assert table.origin == "measured"
    assert len(table.apps) == 4
    assert not np.isfinite(table.factor).all(axis=0).any()


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    done = wattqueue(*RUN, str(tmp_path))
    assert done.returncode == 2
    assert "sgemm" in done.stderr
    assert len(done.stderr.splitlines()) == 1
