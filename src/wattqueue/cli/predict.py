"""Evaluate how well the power of jobs can be predicted.

Replays a trace in order of time: each job is predicted at its submission from the jobs that had ended by then
(``parts/estimator_replay.py``), then the predictions are compared with the measured watts. Estimators of the user's
own are tested for reading the future first, because such an estimator scores better than any real one.

``study.evaluation.evaluation`` computes; this file has the options and the table. Three files are written, all or
none: predictions.csv (every prediction beside the measured watts), scores.json and report.html. CPU time is measured
with the clock of the process, which other programs on the computer do not lengthen.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from wattqueue.errors import OutputError
from wattqueue.formats.duration import duration_s

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Group of one command today: predictions of the power of jobs."""


@app.command("eval")
def eval_(
    jobs: Annotated[Path, typer.Argument(metavar="JOBS", help="A workload with watts, of any known format.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for predictions.csv, scores.json, report.html.")],
    estimator: Annotated[
        list[str] | None,
        typer.Option(
            help="Names or my.py:Class, with commas or often; options behind: history-mean:alpha=1:window_s=86400.",
            show_default="last-job and the history of the target",
        ),
    ] = None,
    target: Annotated[Literal["mean", "max"], typer.Option(help="Mean or highest watts of one node.")] = "mean",
    machine: Annotated[str | None, typer.Option(help="A machine by name or TOML file; gives the maximum.")] = None,
    watts: Annotated[
        str | None, typer.Option("--node-watts", help="IDLE:MAX of a node, in place of --machine.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the random draws in training.")] = 0,
    default_walltime: Annotated[
        str | None, typer.Option(help="Walltime of jobs without a limit: 24h, 90min or seconds.")
    ] = None,
) -> None:
    """Predict every job at its submission from the jobs that had ended by then, and score the predictions.

    A job ends at its recorded start (or else its submission) plus min(run time, walltime). MAPE is over jobs,
    followed by its mean and median over users. "too low" counts under-predictions, which are what exceeds caps. "new
    users" is the MAPE of jobs whose users had no job that had ended, with their number.
    """
    from wattqueue.evaluation.evaluation import evaluate_workload, evaluation_machine
    from wattqueue.formats.atomic_write import written
    from wattqueue.formats.predictions import write_evaluation
    from wattqueue.formats.read import ReadOptions, read_workload
    from wattqueue.report.document import UNBROKEN

    # Checked before the evaluation, which may take minutes.
    if out.exists() and not out.is_dir():
        raise OutputError("is a file, not a directory", where=out, hint="name another directory")
    read = read_workload(jobs, ReadOptions(default_walltime_s=duration_s(default_walltime, "--default-walltime")))
    where = evaluation_machine(read, machine, watts)
    evaluation = evaluate_workload(
        read, where, name=jobs.name, estimators=estimator or (), target=target, seed=seed, clock=time.process_time,
        tell=_tell,
    )  # fmt: skip
    watts_by_name = {e.name: e.predicted_w for e in evaluation.found}
    pages = evaluation.pages()
    # Before the write: the sentence says which files are new and which are overwritten.
    done = written(*(out / name for name in ("predictions.csv", *pages)))
    write_evaluation(out, read.jobs.job_id, evaluation.actual_w, watts_by_name, pages)
    for line in evaluation.document.lines(UNBROKEN):
        typer.echo(line)
    typer.echo(done)


def _tell(name: str) -> None:
    """Print which estimator is being evaluated, on a terminal only.

    Training on a large trace takes minutes per estimator; a log needs only the table.
    """
    if sys.stderr.isatty():
        typer.echo(f"{name} …", err=True)
