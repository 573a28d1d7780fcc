"""How well can the power of your jobs be predicted?"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wattqueue.errors import InputError
from wattqueue.formats.duration import duration_s

if TYPE_CHECKING:
    from wattqueue.formats.workload import Workload
    from wattqueue.model.machine import Machine
    from wattqueue.study.prediction.evaluate import Evaluated

app = typer.Typer(no_args_is_help=True)
DEFAULTS = {"mean": "last-job,history-mean", "max": "last-job,history-max"}
CHECKED_JOBS = 400


@app.callback()
def _root() -> None:
    """Predictions of what jobs draw."""


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
    target: Annotated[Literal["mean", "max"], typer.Option(help="Mean or greatest watts of one node.")] = "mean",
    machine: Annotated[str | None, typer.Option(help="A machine by name or TOML file; gives the maximum.")] = None,
    watts: Annotated[
        str | None, typer.Option("--node-watts", help="IDLE:MAX of a node, in place of --machine.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For what is drawn at random while training.")] = 0,
    default_walltime: Annotated[
        str | None, typer.Option(help="Walltime of jobs without a limit: 24h, 90min or seconds.")
    ] = None,
) -> None:
    """Predict every job at its submission with only what had finished, and say how good that was.

    A job ends at its recorded start (or else its submission) plus min(run time, walltime). MAPE is over jobs;
    then its mean and median over users. "too low" is what breaks caps.
    """
    from wattqueue.formats.read import ReadOptions, read_workload
    from wattqueue.study.prediction.evaluate import evaluate_all

    specs = [name for text in estimator or [DEFAULTS[target]] for name in text.split(",") if name]
    if len(set(specs)) < len(specs):
        raise InputError(f"--estimator names one twice: {', '.join(specs)}")
    read = read_workload(jobs, ReadOptions(default_walltime_s=duration_s(default_walltime, "--default-walltime")))
    where = _machine(machine, watts, read)
    remarks = _remarks(read, target, jobs)
    found = evaluate_all(specs, read.jobs, where, target=target, clock=time.process_time, tell=_tell, seed=seed)
    remarks += [text for spec in specs for text in _leak(spec, target, read, where)]
    _write(out, read, found, remarks, target=target, name=jobs.name)
    _print(found, remarks)
    typer.echo(f"wrote predictions.csv, scores.json and report.html to {out}")


def _machine(name: str | None, watts: str | None, read: Workload) -> Machine:
    """What is stated of the machine: its partitions, or one partition with or without watts."""
    from wattqueue.formats.machine_toml import load_machine
    from wattqueue.formats.node_watts import parse_node_watts
    from wattqueue.model.machine import plain_machine

    if name is not None:
        if watts is not None:
            raise InputError("--machine and --node-watts both state a node's watts", mend="leave one out")
        return load_machine(name)
    idle, most = (0.0, None) if watts is None else parse_node_watts(watts)
    return plain_machine(int(read.jobs.nodes.max(initial=1)), idle, most)


def _remarks(read: Workload, target: str, path: Path) -> list[str]:
    """What a reader must know of the trace. Raises: InputError where it has no watts."""
    import numpy as np

    from wattqueue.parts.timeline import job_watts, trace_timeline

    jobs, actual = read.jobs, job_watts(read.jobs, target)
    known = np.isfinite(actual)
    if not (known & (actual > 0)).any():
        raise InputError(
            "no job has measured watts", where=path, mend="give a trace with energy or power (wattqueue import says)"
        )
    said = list(read.notes)
    if len(read.unusable):
        said.append(f"{len(read.unusable):,} rows of the trace cannot be used (wattqueue import lists them).")
    for count, what in (
        (int((~known).sum()), "have no measured watts and are neither learned nor scored"),
        (
            int((known & (actual <= 0)).sum()),
            "drew 0 W, which no node that runs a job does: neither learned nor scored",
        ),
        (trace_timeline(jobs).early_starts, "started before their submission, which is taken as their start"),
        (int((jobs.user.codes < 0).sum()), "have no user: they count overall, but belong to nobody's history"),
    ):
        if count:
            said.append(f"{count:,} of {len(jobs):,} jobs {what}.")
    if target == "max" and jobs.max_power_w is not None and jobs.mean_power_w is not None:
        filled = int((np.isnan(jobs.max_power_w) & np.isfinite(jobs.mean_power_w)).sum())
        if filled:
            said.append(f"{filled:,} of {len(jobs):,} jobs have no maximum: their mean stands in.")
    elif target == "max" and jobs.max_power_w is None:
        said.append("No job has a maximum: the means stand in, so that this is the evaluation of the mean.")
    return said


def _leak(spec: str, target: str, read: Workload, machine: Machine) -> list[str]:
    """A warning where somebody's own estimator knows the future; ours are held to it by tests."""
    import numpy as np

    from wattqueue.checks.leak import find_leak
    from wattqueue.study.prediction.evaluate import maker

    if ".py" not in spec:
        return []
    first = np.argsort(read.jobs.submit_s, kind="stable")[:CHECKED_JOBS]
    found = find_leak(maker(spec, target), read.jobs.take(first), machine)
    return [f"{spec} knows the future: {found}. Its figures mean nothing."] if found else []


def _tell(name: str) -> None:
    if sys.stderr.isatty():
        typer.echo(f"{name} …", err=True)


def _write(
    out: Path, read: Workload, found: list[Evaluated], remarks: list[str], *, target: Literal["mean", "max"], name: str
) -> None:
    from wattqueue import SCHEMA_VERSION, __version__
    from wattqueue.formats.predictions import write_evaluation
    from wattqueue.parts.timeline import job_watts
    from wattqueue.study.prediction.page import html

    scores = [e.score for e in found]
    document = {
        "schema_version": SCHEMA_VERSION,
        "wattqueue": __version__,
        "workload": name,
        "origin": read.jobs.origin,
        "target": target,
        "scores": [s.figures() for s in scores],
        "remarks": remarks,
    }
    pages = {
        "scores.json": json.dumps(document, indent=2) + "\n",
        "report.html": html(scores, target=target, workload=name, origin=read.jobs.origin, remarks=remarks),
    }
    watts = {e.name: e.predicted_w for e in found}
    write_evaluation(out, read.jobs.job_id, job_watts(read.jobs, target), watts, pages)


def _print(found: list[Evaluated], remarks: list[str]) -> None:
    """The figures as a table; percent of the actual watts of one node."""
    from wattqueue.report.text_table import table
    from wattqueue.study.prediction.page import row

    heads = ["estimator", "MAPE", "median", "mean/users", "median/users", "too low", "too low by (p95)"]
    heads += ["coverage", "CPU", "jobs"]
    rows = [row(e.score) for e in found]
    keep = [k for k in range(len(heads)) if heads[k] != "coverage" or any(r[k] != "–" for r in rows)]
    for line in table([heads[k] for k in keep], [[r[k] for k in keep] for r in rows]):
        typer.echo(line)
    for remark in remarks:
        typer.echo(f"note: {remark}")
