"""The figures of a run folder follow from its tables: an edited folder is refused, by the name of the figure."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import wattqueue as wq
from wattqueue.cli import _app
from wattqueue.errors import InputError, WattQueueError
from wattqueue.formats.rundir.folder import OWN_KEYS, jobs_table, power_table, read_facts, read_run
from wattqueue.formats.toml import dumps, read_toml
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.metrics import metrics
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.signals import Cap

FOLDERS = Path(__file__).with_name("recorded") / "runs"
"""Folders that earlier commits wrote, by commit: of 25 jobs, of which one never ran."""
SWF = "{i} {submit} -1 {run} {nodes} -1 -1 {nodes} {limit} -1 1 {user} 1 1 -1 -1 -1 -1\n"
Edit = Callable[[Path], None]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run under a cap that binds: 60 jobs, some killed, one too wide, one row unusable."""
    folder = tmp_path_factory.mktemp("made")
    rows = [
        SWF.format(
            i=k + 1, submit=k * 37, run=301 + k % 9 * 61, nodes=1 + k % 4, limit=480 if k % 5 == 0 else 1200, user=k % 5
        )
        for k in range(60)
    ]
    rows.append(SWF.format(i=61, submit=2300, run=60, nodes=9, limit=60, user=1))
    rows.append(SWF.format(i=62, submit=2400, run=-1, nodes=1, limit=60, user=1))
    (folder / "trace.swf").write_text("".join(rows))
    steps = folder / "cap.csv"
    steps.write_text("time_s,cap_w\n0,1300\n900,700\n4000,1500\n")
    run = wq.simulate(str(folder / "trace.swf"), nodes=8, node_watts="40:200", cap=str(steps), estimator="history-mean")
    return run.save(folder / "run")


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy to edit."""
    return Path(shutil.copytree(made, tmp_path / "run"))


def without_hashes(folder: Path) -> None:
    """What a folder of before is, or one of which somebody removed them."""
    path = folder / "run.toml"
    path.write_text(path.read_text().partition("\n[sha256]")[0])


def edit_jobs(folder: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    path = folder / "jobs.csv"
    change(pl.read_csv(path, infer_schema=False)).write_csv(path)


def scaled(column: str, factor: float) -> Edit:
    """Multiply a column of jobs.csv by a factor."""
    times = (pl.col(column).cast(pl.Float64) * factor).cast(pl.String)
    return lambda folder: edit_jobs(folder, lambda frame: frame.with_columns(times.alias(column)))


def early(folder: Path) -> None:
    """Let the last job that waits start before its submission."""
    edit_jobs(
        folder,
        lambda frame: frame.with_columns(
            starting_time=pl.when(pl.col("job_id") == "60").then(pl.lit("100")).otherwise("starting_time")
        ),
    )


def watts(factor: float) -> Edit:
    """Multiply all watts of power.parquet, sums among them."""

    def edit(folder: Path) -> None:
        path = folder / "power.parquet"
        names = ("scope_w", "machine_w", "jobs_w", "other_w", "busy_idle_w")
        pl.read_parquet(path).with_columns(pl.col(names) * factor).write_parquet(path)

    return edit


def figure(name: str) -> Edit:
    """Change one figure of metrics.json by a thousandth."""

    def edit(folder: Path) -> None:
        found = json.loads((folder / "metrics.json").read_text())
        found[name] = found[name] * 1.001 + 1
        (folder / "metrics.json").write_text(json.dumps(found))

    return edit


def energies(folder: Path) -> None:
    """Halve the energies of jobs.csv, and the watts that follow from them."""
    scaled("consumed_energy", 0.5)(folder)
    scaled("mean_power_w", 0.5)(folder)


EDITS: dict[str, tuple[Edit, str]] = {
    "a start before the submission": (early, "starting_time"),
    "doubled units": (scaled("requested_number_of_resources", 2), "requested_number_of_resources"),
    "halved energies": (scaled("consumed_energy", 0.5), "mean_power_w"),
    "halved energies and watts": (energies, "consumed_energy"),
    "longer run times": (scaled("runtime_s", 0.5), "energy_per_node_h_j"),
    "other predictions": (scaled("predicted_w", 1.01), "mape_percent"),
    "deleted rows": (lambda folder: edit_jobs(folder, lambda frame: frame[:-20]), "add up to|jobs is"),
    "the row of the job that never ran": (lambda f: edit_jobs(f, lambda frame: frame[:-1]), "jobs is"),
    "less power": (watts(0.5), "consumed_energy add up to"),
    **{
        name: (figure(name), name)
        for name in ("wait_s_mean", "utilization", "machine_energy_j", "power_utilization", "jobs")
    },
}
"""Edits of what the files say twice, with a pattern of what the error names."""


@pytest.mark.parametrize("name", EDITS)
def test_a_figure_that_does_not_follow_is_named(run: Path, name: str) -> None:
    """Also without hashes, as in the folders of earlier versions."""
    edit, words = EDITS[name]
    without_hashes(run)
    read_run(run)
    edit(run)
    with pytest.raises(InputError, match=words) as caught:
        read_run(run)
    assert str(caught.value.where).startswith(str(run))
    assert caught.value.hint


def test_the_interface_of_python_refuses(run: Path) -> None:
    figure("wait_s_mean")(run)
    for read in (wq.read_run, wq.replay, lambda folder: wq.compare([folder, folder])):
        with pytest.raises(WattQueueError, match="wait_s_mean"):
            read(run)


@pytest.mark.parametrize("verb", ["rerun", "replay"])
def test_another_policy_in_the_recipe_is_not_reproduced(run: Path, verb: str) -> None:
    path = run / "run.toml"
    text = path.read_text()
    assert 'policy = "easy"' in text
    path.write_text(text.replace('policy = "easy"', 'policy = "conservative"'))
    done = CliRunner().invoke(_app.build([verb]), [verb, str(run)])
    assert isinstance(done.exception, InputError)
    assert "policy" in done.exception.what
    without_hashes(run)
    done = CliRunner().invoke(_app.build([verb]), [verb, str(run)])
    assert "reproduced" not in done.output


def test_an_unedited_folder_is_reproduced(run: Path) -> None:
    done = CliRunner().invoke(_app.build(["rerun"]), ["rerun", str(run)])
    assert "reproduced" in done.output, (done.output, done.exception)


def test_figures_of_an_exact_sum_are_not_those_of_its_means(tmp_path: Path) -> None:
    """100 W and 300 W in turns of 20 s, of which the series has means of 200 W, below the cap of 250 W."""
    levels = np.array([100.0, 300.0], np.float32)
    profiles = PowerProfiles(
        np.zeros(1, np.int32), np.zeros(1), np.ones(1), levels, np.array([0, 2]), np.zeros(1, np.int64)
    )
    jobs = Jobs.build([10.0], [1], [80.0], mean_power_w=[200.0], max_power_w=[300.0], profiles=profiles)
    machine = Machine("one", (Partition("p", 1, idle_w=10.0, max_w=400.0),), cap_scope="jobs")
    run = wq.simulate(jobs, machine, policy="easy+estimator=oracle-mean", cap=Cap.constant(250.0))
    assert run.metrics["cap_over_s"] == 40.0
    folder = run.save(tmp_path / "run")
    for replayed in (read_run(folder), read_run(wq.replay(folder).save(tmp_path / "again"))):
        assert replayed.schedule.energy_j.tolist() == [16_000.0]
    figure("power_utilization")(folder)
    with pytest.raises(InputError, match="power_utilization"):
        read_run(folder)


def test_comments_and_order_in_the_recipe_mean_nothing(run: Path) -> None:
    path = run / "run.toml"
    data = read_toml(path)
    path.write_text("# mine\n" + dumps(dict(reversed(data.items()))))
    assert read_run(run).facts["task"]["policy"] == "easy"


@pytest.mark.parametrize("commit", sorted(path.name for path in FOLDERS.iterdir()))
def test_folders_of_earlier_versions_open(commit: str) -> None:
    """Their metrics have other names in part; the figures that both know are the same."""
    record = read_run(FOLDERS / commit)
    found = metrics(record.jobs, record.schedule, record.power, record.machine, record.cap)
    common = found.keys() & record.metrics.keys()
    assert len(common) > 20
    assert {name: record.metrics[name] for name in common} == pytest.approx({name: found[name] for name in common})


def test_a_folder_of_another_version_says_so(run: Path) -> None:
    without_hashes(run)
    path = run / "run.toml"
    path.write_text(re.sub(r'wattqueue_version = "[^"]*"', 'wattqueue_version = "0.0.7"', path.read_text()))
    figure("jobs_killed")(run)
    with pytest.raises(InputError) as caught:
        read_run(run)
    assert "0.0.7" in str(caught.value.hint)


def one_edit(folder: Path, rng: random.Random) -> str:
    """Change one value of one file; return what was changed."""
    name = rng.choice(["jobs.csv", "power.parquet", "metrics.json", "run.toml", "unusable.csv"])
    path = folder / name
    if name == "metrics.json":
        found = json.loads(path.read_text())
        key = rng.choice(list(found))
        found[key] = rng.choice(
            [None, 0, 1.5, -3, found[key] if isinstance(found[key], str) else (found[key] or 0) * 2]
        )
        if rng.random() < 0.2:
            del found[key]
        path.write_text(json.dumps(found))
        return f"{name} {key}"
    if name == "run.toml":
        data = read_toml(path)
        table, key = leaf(data, rng)
        table[key] = other(table[key], rng)
        path.write_text(dumps(data))
        return f"{name} {key}"
    frame = pl.read_parquet(path) if name == "power.parquet" else pl.read_csv(path, infer_schema=False)
    column, row = rng.choice(frame.columns), rng.randrange(len(frame))
    if rng.random() < 0.15:
        frame = pl.concat([frame[:row], frame[row + rng.choice([1, 2]) :]])
    elif rng.random() < 0.1:
        frame = pl.concat([frame[: row + 1], frame[row:]])
    else:
        cells = frame[column].to_list()
        cells[row] = other(cells[row], rng)
        frame = frame.with_columns(pl.Series(column, cells, dtype=frame[column].dtype))
    frame.write_parquet(path) if name == "power.parquet" else frame.write_csv(path)
    return f"{name} {column} {row}"


def leaf(data: dict[str, Any], rng: random.Random) -> tuple[dict[str, Any], str]:
    """Return a table of a TOML file and a key of it that is no table."""
    key = rng.choice(list(data))
    value = data[key]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = rng.choice(value)
    return leaf(value, rng) if isinstance(value, dict) and value else (data, key)


def other(value: Any, rng: random.Random) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, bool) or value is None:
        return "1"
    if isinstance(value, int):
        return value + rng.choice([1, -1, 7])
    if isinstance(value, float):
        return rng.choice([value * 2, value / 2, value + 1, -value, 0.0])
    if isinstance(value, list):
        return [*value[:-1], other(value[-1], rng)] if value else ["x"]
    try:
        return rng.choice([str(float(value) * 2), str(float(value) + 1), ""])
    except ValueError:
        return rng.choice([value + "1", "", value[::-1]])


def said(folder: Path) -> list[Any]:
    """Everything that a reader takes from a folder, and that reports, comparisons and replays draw."""
    record = read_run(folder)
    cap = (record.cap.time_s.tolist(), record.cap.cap_w.tolist())
    facts = {key: value for key, value in read_facts(folder)[0].items() if key in record.facts or key in OWN_KEYS[:4]}
    return [
        jobs_table(record).rows(),
        power_table(record).rows(),
        record.metrics,
        record.machine,
        cap,
        facts,
        list(record.unusable.rows()),
        record.watts,
    ]


@given(st.integers(0, 2**32))
def test_a_single_edit_is_found_or_changes_nothing(
    made: Path, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Each file, each column, rows that are lost or doubled. What is read is the whole of what can be drawn."""
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("edited") / "run"
    shutil.copytree(made, folder)
    what = one_edit(folder, rng)
    with contextlib.suppress(WattQueueError):
        assert said(folder) == said(made), what
    shutil.rmtree(folder.parent)


@given(st.integers(0, 2**32))
def test_without_hashes_the_metrics_follow_from_what_is_read(
    made: Path, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Of an edited folder of before as well, whatever else was changed: names, walltimes, the policy."""
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("edited") / "run"
    shutil.copytree(made, folder)
    without_hashes(folder)
    what = one_edit(folder, rng)
    record = None
    with contextlib.suppress(WattQueueError):
        record = read_run(folder)
    shutil.rmtree(folder.parent)
    if record is None:
        return
    again = metrics(
        record.jobs, record.schedule, record.power, record.machine, record.cap, rows_unusable=len(record.unusable)
    )
    for name in again.keys() & record.metrics.keys() - {"cap_overshoot_w", "cap_over_s", "cap_over_j"}:
        # Those of the cap may be of an exact sum of which the series has means.
        assert record.metrics[name] == pytest.approx(again[name], rel=1e-6, abs=1e-4), (what, name)
