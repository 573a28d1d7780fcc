"""Every consumer of two runs that did different work: none states a winner or a difference of totals.

Random small worlds in which a cap leaves jobs that run without it. All consumers of ``model.comparability`` are driven
through one test; a new one is added to ``CONSUMERS``.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import wattqueue as wq
from wattqueue.api.run import RunResult
from wattqueue.cli._table import print_document
from wattqueue.cli.compare import terminal_table
from wattqueue.model.comparability import PER_WORK, WorkDone
from wattqueue.model.jobs import Jobs
from wattqueue.model.schedule import REASONS
from wattqueue.report import campaign
from wattqueue.report.compare.document import report
from wattqueue.report.compare.table import flat
from wattqueue.report.document import Table

WINNER = re.compile(
    r"least (energy|time)|Further left is better|[Ll]ower left|instead of|times as long|mean wait ranges|"
    r"highest peak|longest queue|best cap|[+−]\d[\d.,]* ?%"
)
"""What states a winner, or the size of a difference."""


def world(seed: int) -> Jobs:
    """Narrow jobs, and some as wide as the machine, whose predicted watts fit under no low cap."""
    rng = np.random.default_rng(seed)
    n = 25
    nodes = np.where(np.arange(n) % 6 == 5, 8, rng.integers(1, 3, n))
    return Jobs.build(
        np.cumsum(rng.exponential(200.0, n)).round(), nodes, rng.integers(50, 900, n).astype(float),
        walltime_s=np.full(n, 1_000.0), user=rng.choice(["ann", "bob"], n), mean_power_w=[190.0] * n,
    )  # fmt: skip


@pytest.fixture(scope="module", params=range(3))
def runs(request: pytest.FixtureRequest) -> dict[str, RunResult]:
    """A run of all jobs, and one that left some; in both orders by the seed."""
    jobs = world(request.param)
    made = {
        cap: wq.simulate(jobs, nodes=8, node_watts="100:200", policy="easy", estimator="oracle-mean", cap=cap)
        for cap in ("none", "65%")
    }
    assert made["none"].work.whole
    assert not made["65%"].work.whole
    return made if request.param % 2 else dict(reversed(made.items()))


def compared(runs: dict[str, RunResult], _: Path) -> str:
    found = wq.compare(runs)
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(terminal_table(found.comparison, everything=True))
    shown = console.export_text()
    for row in flat(found.comparison):
        if row["difference_percent"] is not None:
            assert row["metric"] in PER_WORK
        assert row["paired_difference"] is None
    # What may be compared is the energy of a node-hour; its line is the only one with a difference.
    per_work = re.compile(r"energy per completed node-hour[^\n]*\n[^\n]*", re.IGNORECASE)
    page = re.sub(r"<tr><th[^>]*>Energy per completed.*?</tr>", "", body_of(report(found.comparison)))
    html = re.sub(r"<tr[^>]*><td[^>]*>Energy per completed.*?</tr>", "", found._repr_html_())
    return "\n".join([per_work.sub("", shown), page, html, repr(found)])


def body_of(page: str) -> str:
    """The text of a page without its scripts."""
    return re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL).replace("\u00a0", " ")


def campaigned(runs: dict[str, RunResult], _: Path) -> str:
    rows = [
        {
            "workload": "w", "seed": 0, "machine": "m", "policy": "easy", "estimator": "oracle-mean", "cap": cap,
            "cap_w": None if cap == "none" else 1_040.0, "oracle": "", **run.record.metrics, **run.work.row(),
        }
        for cap, run in runs.items()
    ]  # fmt: skip
    print_document(campaign.summary(campaign.groups_of(rows), "campaign"))
    page = body_of(campaign.html(rows, "c"))
    assert 'id="fig-pareto"' not in page
    return page


def what_if(runs: dict[str, RunResult], _: Path) -> str:
    jobs = runs["none"].record.jobs
    made = wq.whatif(jobs, nodes=8, node_watts="100:200", cap="65%", estimator="oracle-mean", workers=1)
    assert "does not hold" in str(made.shown.text[2])
    assert all(row.get("extra_wait_s_mean") is None for row in made.rows)
    assert made.delayed_user_rows == ()
    lines = [" ".join(row) for table in made.shown.text if isinstance(table, Table) for row in table.rows]
    said = [line for line in made.shown.text if isinstance(line, str)]
    return "\n".join([*lines, *said, body_of(made.files["report.html"]), repr(made), made._repr_html_()])


CONSUMERS: dict[str, Callable[[dict[str, RunResult], Path], str]] = {
    "compare": compared, "campaign": campaigned, "whatif": what_if,
}  # fmt: skip


@pytest.mark.parametrize("consumer", list(CONSUMERS))
def test_nobody_names_a_winner(
    runs: dict[str, RunResult], consumer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = CONSUMERS[consumer](runs, tmp_path) + capsys.readouterr().out
    assert not WINNER.search(said), WINNER.search(said)
    assert "never ran" in said


def test_a_run_says_what_it_left(runs: dict[str, RunResult], tmp_path: Path) -> None:
    run = runs["65%"]
    left = run.metrics["jobs_never_ran"]
    assert left > 0
    assert f"{left} of 25 jobs never ran (never fits under the cap)" in repr(run)
    reasons = run.jobs.filter(run.jobs["starting_time"].is_null())["reason"].to_list()
    assert len(reasons) == left
    assert set(reasons) <= set(REASONS.values()) - {""}
    assert run.jobs.filter(run.jobs["starting_time"].is_not_null())["reason"].null_count() == 25 - left
    again = wq.read_run(run.save(tmp_path / "run"))
    assert again.work == run.work == WorkDone.of(run.record.jobs, run.record.schedule)
