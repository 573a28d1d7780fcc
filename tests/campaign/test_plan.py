"""Campaign files: what they say, and one clear line for what they cannot say."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattqueue.campaign.cell import key_of
from wattqueue.campaign.plan import plan_of
from wattqueue.campaign.shared import Shared
from wattqueue.errors import InputError, WattQueueError

TRACE = "".join(
    f"{i} {i * 10} -1 {60 + i % 7 * 30} {1 + i % 5} -1 -1 {1 + i % 5} 400 -1 1 1 1 1 -1 -1 -1 -1\n"
    for i in range(1, 80)
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "trace.swf").write_text(TRACE)
    (tmp_path / "rows.toml").write_text('[mine]\nbackfill = { part = "easy", queue_depth = 3 }\n')
    (tmp_path / "day.csv").write_text("time_s,cap_w\n0,1200\n300,1500\n")
    return tmp_path


def plan_text(folder: Path, text: str) -> Path:
    path = folder / "grid.toml"
    path.write_text(text)
    return path


WARM = 'nodes = 8\nworkloads = [{{ trace = "trace.swf", windows = {{ {} }} }}]\n'
PLAIN = 'workloads = ["trace.swf"]\nnodes = 8\nnode_watts = "95:190.7"\n'


def test_the_grid_is_the_product_of_its_axes_the_last_the_fastest(folder: Path) -> None:
    text = """
        workloads = ["marconi:days=1", { trace = "trace.swf", begin = "1min", length = "5min" }]
        machines = ["marconi100", "quartz"]
        policies = ["easy", "rows.toml:mine"]
        estimators = ["maximum", "history-mean"]
        caps = ["none", "60%"]
        seeds = "1..2"
    """
    plan = plan_of(plan_text(folder, text))
    assert [str(s) for s in plan.sources] == [
        "marconi:days=1, seed 1", "marconi:days=1, seed 2", str(folder / "trace.swf")
    ]  # fmt: skip
    assert plan.runs == 3 * 2 * 2 * 2 * 2
    cells = plan.cells([{"table": str(i), "rows_unusable": i} for i in range(3)])
    assert len(cells) == plan.runs
    assert (
        str(cells[0]) == "workload marconi:days=1, seed 1, machine marconi100, policy easy, estimator maximum, cap none"
    )
    assert [c.names["cap"] for c in cells[:4]] == ["none", "60%", "none", "60%"]
    last = cells[-1]
    assert last.names["workload"] == "trace.swf [1min, 5min]"
    assert (last.names["seed"], last.names["policy"], last.rows_unusable) == (None, "rows.toml:mine", 2)
    assert last.row["backfill"] == {"part": "easy", "queue_depth": 3}
    assert last.names["cap_w"] == pytest.approx(0.6 * (last.machine.scope_max_w() or 0))


def test_a_window_counts_from_the_first_submission(folder: Path) -> None:
    text = 'workloads = [{ trace = "trace.swf", begin = "100s", length = "5min" }]\nnodes = 8\n'
    source = plan_of(plan_text(folder, text)).sources[0]
    shared = Shared(folder / "shared")
    row = source.perform(shared)
    jobs = shared.jobs(str(row["table"]))
    assert (jobs.submit_s[0], jobs.submit_s[-1]) == (110.0, 400.0)
    assert row["jobs"] == len(jobs) == 30


def test_a_trace_shorter_than_its_window(folder: Path) -> None:
    text = 'workloads = [{ trace = "trace.swf", begin = "10min", length = "5min" }]\nnodes = 8\n'
    with pytest.raises(InputError) as caught:
        plan_of(plan_text(folder, text)).sources[0].perform(Shared(folder))
    assert caught.value.where == str(folder / "trace.swf")
    assert "0.009028 d" in caught.value.what
    assert "0.01042 d" in caught.value.what


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (PLAIN + 'polices = ["easy"]', ["polices", "policies"]),
        (WARM.format('length = "5min", cuont = 2'), ["workloads[1].windows.cuont", "did you mean count?"]),
        (PLAIN + "[slurm]\nmemroy = '1GB'", ["slurm.memroy", "memory"]),
        ('nodes = 8\nworkloads = [{ trace = "trace.swf", lenght = "1d" }]', ["workloads[1].lenght"]),
        ('nodes = 8\nworkloads = [{ trace = "trace.swf", begin = "1d" }]', ["length"]),
        ('nodes = 8\nworkloads = [{ trace = "trace.swf", length = "soon" }]', ["'soon'"]),
        (WARM.format('lenght = "1d", count = 2'), ["workloads[1].windows.lenght", "length"]),
        (WARM.format("count = 2"), ["workloads[1].windows.length"]),
        (WARM.format('length = "5min"'), ["count", "begins"]),
        (WARM.format('length = "5min", count = 2, begins = ["1min"]'), ["count", "begins"]),
        (WARM.format('length = "5min", begins = ["1min"], seed = 3'), ["seed", "count"]),
        (WARM.format('length = "5min", begins = ["soon"]'), ["workloads.windows.begins", "'soon'"]),
        (WARM.format('length = "5min", count = 2, busy = -1.0'), ["windows.busy = -1.0"]),
        (WARM.format('length = "5min", count = 2, seed = -1'), ["windows.seed = -1"]),
        (WARM.format('length = "5min", count = 2, machine = "quarz"'), ["quartz"]),
        (
            WARM.format('length = "5min", count = 2').replace("nodes = 8", 'machines = ["quartz", "montblanc"]'),
            ["workloads.windows", 'machine = "quartz"'],
        ),
        (WARM.format('length = "5min", count = 2') + 'estimators = ["linear"]', ["Linear"]),
        (
            'nodes = 8\nworkloads = [{ trace = "trace.swf", length = "1d", windows = { length = "1d", count = 1 } }]',
            ["windows", "length"],
        ),
        ("nodes = 8", ["workloads"]),
        ("nodes = 8\nworkloads = []", ["workloads"]),
        ("nodes = 8\nworkloads = [3]", ["workloads[1] = 3"]),
        ('workloads = ["trace.swf"]', ["machines", "nodes"]),
        (PLAIN + 'machines = ["quartz"]', ["machines", "nodes"]),
        ('workloads = ["trace.swf"]\nnodes = 0', ["nodes = 0"]),
        ('workloads = ["trace.swf"]\nmachines = ["quarz"]', ["quartz"]),
        ('workloads = ["gone.swf"]\nnodes = 8', ["gone.swf"]),
        ('workloads = ["marconi:dais=3"]\nnodes = 8', ["marconi:dais=3", "'dais'"]),
        ('workloads = ["marconi:days=1e9"]\nnodes = 8', ["marconi:days=1e9", "days"]),
        ('workloads = ["fugaku:jobs=1.5"]\nnodes = 8', ["fugaku:jobs=1.5", "jobs"]),
        (PLAIN + 'policies = ["easier"]', ["'easier'"]),
        (PLAIN + 'policies = ["rows.toml:yours"]', ["'yours'"]),
        (PLAIN + 'estimators = ["guess"]', ["'guess'"]),
        (PLAIN + 'caps = ["400"]', ["400"]),
        (PLAIN + 'caps = [""]', ["caps"]),
        (PLAIN + 'caps = ["100W"]', ["idle"]),
        (PLAIN + 'caps = ["90%", "90%"]', ["caps", "'90%'"]),
        (PLAIN + 'seeds = "5..1"', ["seeds"]),
        (PLAIN + 'seeds = "1..999999999"', ["seeds", "100,000"]),
        (PLAIN + 'seeds = "1..99999999999999999999"', ["seeds"]),
        (PLAIN + "seeds = [-1]", ["seeds", "-1"]),
        (PLAIN + "seeds = 3", ["seeds = 3"]),
        (PLAIN + "policies = 1979-05-27", ["policies"]),
        (PLAIN + "out = 3", ["out = 3"]),
        (PLAIN + "= 3", ["TOML"]),
    ],
)
def test_one_clear_line(folder: Path, text: str, named: list[str]) -> None:
    """The line names the key, and the value where it is at fault."""
    with pytest.raises(WattQueueError) as caught:
        plan_of(plan_text(folder, text))
    line = str(caught.value)
    assert all(name in line for name in named), line
    assert "\n" not in line


def test_files_of_a_composed_policy_stand_beside_the_campaign_file(folder: Path) -> None:
    (folder / "flat.py").write_text(PART.replace("WATTS", "150.0"))
    named = "rows.toml:mine+estimator=flat.py:Flat+order=fcfs"
    (choice,) = plan_of(plan_text(folder, PLAIN + f'policies = ["{named}"]')).choices
    assert choice.row["estimator"] == f"{folder}/flat.py:Flat"
    assert choice.row["backfill"] == {"part": "easy", "queue_depth": 3}


def test_runs_are_named_by_the_canonical_name_of_their_policy(folder: Path) -> None:
    named = '"easy+backfill=easy", "rows.toml:mine+order=fcfs", "fcfs+order=wait-aware+backfill=conservative"'
    plan = plan_of(plan_text(folder, PLAIN + f"policies = [{named}]"))
    cells = plan.cells([{"table": "jobs", "rows_unusable": 0}])
    assert [cell.names["policy"] for cell in cells] == [
        "easy", "rows.toml:mine", "fcfs+order=wait-aware+backfill=conservative"
    ]  # fmt: skip
    assert [choice.path for choice in plan.choices] == [
        "easy", f"{folder}/rows.toml:mine", "fcfs+order=wait-aware+backfill=conservative"
    ]  # fmt: skip


def test_two_names_of_one_policy_are_refused(folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        plan_of(plan_text(folder, PLAIN + 'policies = ["easy", "easy+backfill=easy"]'))
    assert "policies: 'easy+backfill=easy' is 'easy'" in str(caught.value)


def test_the_folder_of_outputs_of_slurms_jobs_stands_beside_the_campaign_file(folder: Path) -> None:
    plan = plan_of(plan_text(folder, PLAIN + '[slurm]\nlog_folder = "logs"'))
    assert plan.file.slurm.log_folder == str(folder / "logs")
    assert plan_of(plan_text(folder, PLAIN)).file.slurm.log_folder is None


def test_a_cap_file_stands_beside_the_campaign_file(folder: Path) -> None:
    plan = plan_of(plan_text(folder, PLAIN + 'caps = ["day.csv"]'))
    assert plan.cap_of["8-nodes", "day.csv"].cap_w.tolist() == [1200.0, 1500.0]
    assert plan.cells([{"table": "day", "rows_unusable": 0}])[0].names["cap_w"] is None


PART = """
import numpy as np
from wattqueue.parts.contracts import Prediction

class Flat:
    asked = "once"
    machine_figures = True

    def predict(self, jobs, machine):
        shape = (len(jobs), len(machine.option_partition))
        return Prediction(np.full(shape, WATTS), np.ones(shape))

    def learn(self, finished):
        pass
"""


def test_a_part_of_ones_own_is_known_by_its_content(folder: Path) -> None:
    """Edited, it is another run, and the edited one is what runs, in this process too."""
    text = PLAIN + 'caps = ["90%"]\nestimators = ["flat.py:Flat"]\n'
    shared = Shared(folder / "shared")
    found = []
    for watts in ("150.0", "185.0"):
        (folder / "flat.py").write_text(PART.replace("WATTS", watts))
        plan = plan_of(plan_text(folder, text))
        cell = plan.cells([plan.sources[0].perform(shared)])[0]
        found.append((key_of(cell), cell.perform(shared)["wait_s_mean"]))
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]
    (folder / "flat.py").write_text(PART)
    with pytest.raises(InputError) as caught:
        cell.perform(shared)
    assert str(caught.value.where).endswith("flat.py")
