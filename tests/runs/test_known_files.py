"""What a site knows of its machine, through every verb that runs: rows that follow from it, files, hashes, energies."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

import wattqueue as wq
from wattqueue.campaign.plan import plan_of
from wattqueue.campaign.shared import Shared
from wattqueue.cli.rerun import differences
from wattqueue.errors import MachineError
from wattqueue.formats.machine.file import machine_toml, read_machine
from wattqueue.formats.read import ReadOptions, read_workload
from wattqueue.formats.rundir.folder import write_run
from wattqueue.runs.perform import load, perform
from wattqueue.runs.record import record, recorded_inputs
from wattqueue.runs.task import Task
from wattqueue.whatif.prepare import Question, prepare

EXAMPLE = Path(__file__).parents[2] / "examples" / "site"
POLICIES = ("easy", "eamc-priority-inc", "slurm-vtp", "combined")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for file in EXAMPLE.glob("*.*"):
        shutil.copy(file, tmp_path)
    lines = (tmp_path / "sept.psv").read_text().splitlines(keepends=True)
    (tmp_path / "few.psv").write_text("".join(lines[:31]))
    return tmp_path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("policy", POLICIES)
def test_energies_differ_as_the_tables_say(site: Path, policy: str) -> None:
    """Each job's energy by hand: recorded watts and time, ratios of EAR's tables, factors of its nodes."""
    machine = read_machine(site / "site.toml")
    run = wq.simulate(str(site / "few.psv"), machine, policy=policy)
    jobs, schedule = run.record.jobs, run.record.schedule
    metrics = {(row["app_id"], int(row["module_index"])): row for row in rows_of(site / "apps.csv")}
    steps = {(row["module"], row["f_target_ghz"]): row for row in rows_of(site / "coefficients.csv")}
    watts = {(row["app"], int(row["unit"])): float(row["watts"]) for row in rows_of(site / "units.csv")}
    assert jobs.mean_power_w is not None
    for k, app in enumerate(jobs.app.values().tolist()):
        option = int(schedule.option[k])
        p, hz = int(machine.option_partition[option]), machine.option_frequency_hz[option]
        here, reference = metrics[app, p], metrics[app, 0]
        clock = machine.partitions[p].frequencies_hz
        cpi, tpi = float(here["cpi"]), float(here["tpi"])
        coefficient = steps[machine.partitions[p].name, f"{hz / 1e9:g}"]
        own = hz == clock[0]
        a, b, c, d, e = (1.0, 0.0, 0.0, 1.0, 0.0) if own else (float(coefficient[x]) for x in "ABCDE")
        power = a * float(here["power_w"]) + b * tpi + c
        seconds = float(here["time_s"]) * (d * cpi + e * tpi) / cpi * clock[0] / hz
        first = int(machine.unit_start[p])
        held = units_of(run, k)
        kind = [watts[app, unit] for unit in range(first, int(machine.unit_start[p + 1]))]
        factor = np.mean([watts[app, unit] for unit in held]) / np.mean(kind)
        mean_w = float(jobs.mean_power_w[k]) * power / float(reference["power_w"]) * factor
        length = float(jobs.runtime_s[k]) * seconds / float(reference["time_s"])
        wanted = mean_w * length * int(jobs.nodes[k])
        assert schedule.energy_j[k] == pytest.approx(wanted, rel=1e-6)


def units_of(run: wq.RunResult, job: int) -> list[int]:
    """Return the units that a job held."""
    text = run.jobs.row(job, named=True)["allocated_resources"]
    found: list[int] = []
    for piece in text.split():
        low, _, high = piece.partition("-")
        found += range(int(low), int(high or low) + 1)
    return found


def test_a_run_that_is_repeated_reads_the_same_files(site: Path) -> None:
    task = Task(str(site / "few.psv"), machine=str(site / "site.toml"), policy="combined")
    outcome = perform(load(task))
    write_run(site / "run", record(outcome))
    write_run(site / "again", record(perform(recorded_inputs(site / "run"))))
    assert differences(site / "run", site / "again") == []
    recorded = recorded_inputs(site / "run").task.hashes
    assert {Path(key).name for key in recorded} >= {"units.csv", "apps.csv", "coefficients.csv"}
    with (site / "units.csv").open("a") as file:
        file.write("lammps,0,391\n")
    with pytest.raises(wq.WattQueueError, match="differs from the recorded one"):
        recorded_inputs(site / "run")


def test_a_campaign_makes_the_row_for_each_machine(site: Path) -> None:
    text = (site / "site.toml").read_text()
    (site / "bare.toml").write_text(text[: text.index("# What the site knows")] + text[text.index("[[partitions]]") :])
    (site / "grid.toml").write_text(
        'workloads = ["few.psv"]\nmachines = ["site.toml", "bare.toml"]\npolicies = ["easy", "combined"]\n'
    )
    plan = plan_of(site / "grid.toml")
    shared = Shared(site / "shared")
    cells = plan.cells([plan.sources[0].perform(shared)])
    assert [cell.names["estimator"] for cell in cells] == ["maximum", "ear,unit-factors", "maximum", "maximum"]
    assert any(name.endswith("units.csv") for name in cells[1].hashes)
    said = plan.expansions()
    assert [line.partition(":")[0] for line in said] == ["combined on site", "combined on site"]
    assert "ear,unit-factors" in said[0]
    assert "maximum" in said[1]


def test_what_if_makes_the_row_for_its_machine(site: Path) -> None:
    task = Task(str(site / "few.psv"), machine=str(site / "site.toml"))
    setup = prepare(Question(task, "90%", ("easy", "combined")))
    (said,) = setup.expansions()
    assert said.startswith("combined on site: estimator ear,unit-factors")
    policy = setup.policy(("combined", None))
    assert policy.row["ledger"] == "adaptive"


def test_the_machine_file_is_written_with_what_is_known(site: Path) -> None:
    machine = read_machine(site / "site.toml")
    (site / "again.toml").write_text(machine_toml(machine))
    assert read_machine(site / "again.toml").known == machine.known


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("[known]", "names no file"),
        ('[known]\nunit = "units.csv"', "unit"),
        ('[known]\near = { coefficients = "c.csv" }', "apps or database"),
        ('[known]\near = { coefficients = "c.csv", apps = "a.csv", database = "a.db" }', "apps or database"),
        ("[known]\nprices = 3", "prices"),
    ],
)
def test_a_wrong_table_of_what_is_known_is_refused(site: Path, table: str, words: str) -> None:
    text = (site / "site.toml").read_text()
    head, rest = text[: text.index("[known]")], text[text.index("[[partitions]]") :]
    (site / "wrong.toml").write_text(f"{head}\n{table}\n{rest}")
    with pytest.raises(MachineError, match=words) as found:
        read_machine(site / "wrong.toml")
    assert "wrong.toml" in str(found.value.where)


def test_the_example_is_what_its_generator_writes(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = site / "again"
    again.mkdir()
    monkeypatch.chdir(again)
    exec(compile((EXAMPLE / "make.py").read_text(), "make.py", "exec"), {})  # noqa: S102 - a file of ours
    made = sorted(file.name for file in again.iterdir())
    assert made == ["apps.csv", "coefficients.csv", "sept.psv", "units.csv"]
    assert all((again / name).read_bytes() == (EXAMPLE / name).read_bytes() for name in made)
    assert len(read_workload(EXAMPLE / "sept.psv", ReadOptions()).jobs) == 150
