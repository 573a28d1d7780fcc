"""Evaluate how well the power of jobs can be predicted.

Replays a trace in order of time: each job is predicted at its submission from the jobs that had ended by then
(``parts/estimator_replay.py``), then the predictions are compared with the measured watts. Estimators of the user's
own are tested for reading the future first, because such an estimator scores better than any real one.

``study.evaluation.evaluation`` computes; this file has the options and the table. Three files are written, all or
none: predictions.csv (every prediction beside the measured watts), scores.json and report.html. CPU time is measured
with the clock of the process, which other programs on the computer do not lengthen.
"""

from __future__ import annotations

import time
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import typer

from wattqueue.errors import OutputError
from wattqueue.evaluation.options import PredictOptions
from wattqueue.formats.times import duration_s
from wattqueue.options import about
from wattqueue.verbs import OUT, Printed, verb_of


@dataclass(frozen=True)
class PredictVerb(Printed, PredictOptions):
    """Options of the verb."""

    _: KW_ONLY
    out: Path = field(metadata=about("Folder for predictions.csv, scores.json, report.html.", kind=Path, flags=OUT))


app = typer.Typer(no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Group of one command today: predictions of the power of jobs."""


@app.command("eval")
@verb_of(PredictVerb)
def eval_(options: PredictVerb) -> None:
    """Predict every job at its submission from the jobs that had ended by then, and score the predictions.

    A job ends at its recorded start (or else its submission) plus min(run time, walltime). MAPE is over jobs,
    followed by its mean and median over users. "too low" counts under-predictions, which are what exceeds caps. "new
    users" is the MAPE of jobs whose users had no job that had ended, with their number.
    """
    from wattqueue.evaluation.evaluation import evaluate_workload, evaluation_machine
    from wattqueue.formats.atomic_folder import written
    from wattqueue.formats.read import ReadOptions, read_workload
    from wattqueue.formats.results import write_evaluation
    from wattqueue.report.document import UNBROKEN
    from wattqueue.terminal import running

    out, jobs = options.out, Path(str(options.jobs))
    # Checked before the evaluation, which may take minutes.
    if out.exists() and not out.is_dir():
        raise OutputError("is a file, not a directory", where=out, hint="name another directory")
    walltime = duration_s(options.default_walltime, "--default-walltime")
    read = read_workload(jobs, ReadOptions(default_walltime_s=walltime))
    machine = evaluation_machine(read, options.machine_name, options.node_watts)
    with running("predicting", "estimators", quiet=options.quiet) as tell:
        evaluation = evaluate_workload(
            read, machine, name=jobs.name, physics=options.truth_on(machine), estimators=options.estimators,
            target=options.target, seed=options.seed, clock=time.process_time, tell=tell,
        )  # fmt: skip
    watts_by_name = {e.name: e.predicted_w for e in evaluation.found}
    pages = evaluation.pages()
    # Before the write: the sentence says which files are new and which are overwritten.
    done = written(*(out / name for name in ("predictions.csv", *pages)))
    write_evaluation(out, read.jobs.job_id, evaluation.actual_w, watts_by_name, pages)
    options.show(evaluation.scores_json, lambda: evaluation.document.lines(UNBROKEN))
    options.say([done])
