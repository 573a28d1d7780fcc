"""What would a cap do: waits, risk, cost and carbon for a row of caps, and the lowest that the data call safe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wattqueue.errors import InputError
from wattqueue.formats.duration import duration_s

if TYPE_CHECKING:
    from wattqueue.whatif.answer import Answer
    from wattqueue.whatif.ask import Question


def run(
    jobs: Annotated[str, typer.Argument(metavar="JOBS", help="A trace or job table, or marconi:days=7,load=0.9.")],
    *,
    cap: Annotated[str, typer.Option(help="60%..100%, 60%..100%:10%, 300kW..500kW:50kW, or a list.")] = "60%..100%",
    machine: Annotated[str | None, typer.Option(help="A machine of the catalogue, or a TOML file.")] = None,
    nodes: Annotated[int | None, typer.Option(help="A plain machine of so many nodes instead.")] = None,
    node_watts: Annotated[str | None, typer.Option(help="Watts of a plain node, IDLE:MAX.")] = None,
    policy: Annotated[str, typer.Option(help="Rows' names, my.toml:row, with commas.")] = "easy",
    estimator: Annotated[str | None, typer.Option(help="Instead of the policies' own, with commas.")] = None,
    risk: Annotated[str, typer.Option(help="Share of time above the cap that is still safe.")] = "1%",
    prices: Annotated[Path | None, typer.Option(help="CSV of time and price.")] = None,
    price_unit: Annotated[str, typer.Option(help="What prices are in.")] = "EUR/MWh",
    intensity: Annotated[Path | None, typer.Option(help="CSV of time and carbon intensity.")] = None,
    intensity_unit: Annotated[str, typer.Option(help="What intensities are in.")] = "gCO2/kWh",
    start: Annotated[
        str | None, typer.Option(help="Date of the trace's time 0, or of its first job where it brings dates.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend dates whose offset their neighbours contradict.")
    ] = False,
    at: Annotated[
        str | None, typer.Option(help="The cap to look at closely. [safe one, else knee, else lowest]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of generated workloads.")] = 0,
    default_walltime: Annotated[str | None, typer.Option(help="For jobs without one: 24h. [run time]")] = None,
    procs_per_node: Annotated[int, typer.Option(help="Processors of an SWF trace that make a node.")] = 1,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes. [one a core]")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for report.html, whatif.csv, payers.csv, whatif.json.")
    ] = None,
) -> None:
    """What would a cap do: waits, risk, cost and carbon for a row of caps, and the lowest that the data call safe."""
    from wattqueue.sim.task import Task
    from wattqueue.whatif.ask import Question
    from wattqueue.whatif.bill import parse_source

    task = Task(
        jobs, machine, nodes, node_watts, seed=seed,
        default_walltime_s=duration_s(default_walltime, "--default-walltime"), procs_per_node=procs_per_node,
    )  # fmt: skip
    question = Question(
        task, cap, _names(policy, "--policy"), _names(estimator, "--estimator") if estimator else (None,), share(risk),
        parse_source(prices, price_unit, "--price-unit") if prices else None,
        parse_source(intensity, intensity_unit, "--intensity-unit") if intensity else None,
        start, repair, at,
    )  # fmt: skip
    _answer(question, workers, out)


def _answer(question: Question, workers: int | None, out: Path | None) -> None:
    """Run, write, print."""
    from tempfile import TemporaryDirectory

    from wattqueue.campaign.shared import Shared
    from wattqueue.cli._progress import running
    from wattqueue.whatif.answer import conclude
    from wattqueue.whatif.ask import ask, prepare

    setup = prepare(question)
    runs = len(setup.names) * (1 + len(setup.caps))
    with TemporaryDirectory(prefix="wattqueue-") as folder:
        with running(runs * len(setup.jobs), "what if", runs, "runs") as tell:
            found = ask(setup, Shared(Path(folder)), workers=workers, tell=tell)
        answer = conclude(setup, found)
        if out is not None:
            _write(answer, out)
        _print(answer)
    if out is not None:
        typer.echo(f"{out / 'report.html'} (with whatif.csv, payers.csv and whatif.json)")


def _write(answer: Answer, out: Path) -> None:
    from wattqueue.formats.pages import write_files
    from wattqueue.whatif.document import payer_rows, rows, to_csv, to_json
    from wattqueue.whatif.page import html

    files = {
        "whatif.csv": to_csv(rows(answer)),
        "payers.csv": to_csv(list(payer_rows(answer))),
        "whatif.json": to_json(answer),
        "report.html": html(answer),
    }
    write_files(out, files)


def _print(answer: Answer) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from wattqueue.whatif.text import WORDS, heads, remarks, sentences, table_rows

    console = Console()
    for curve in answer.curves:
        name = f"{Path(answer.setup.task.workload).name} on {answer.setup.machine.name}: {curve.label}"
        table = Table(
            title=name,
            title_justify="left",
            title_style="bold",
            box=SIMPLE_HEAD,
            padding=(0, 1),
            pad_edge=False,
            collapse_padding=True,
        )
        found = table_rows(answer, curve)
        names = heads(answer)
        keep = [k for k in range(len(names)) if any(row[k] for row in found)]
        for k in keep:
            table.add_column(
                names[k].replace(" ", "\n").replace("slowdown", "slow-\ndown"),
                justify="left" if k in WORDS else "right",
                overflow="fold",
            )
        for row in found:
            table.add_row(*(row[k] for k in keep))
        console.print(table)
        for line in sentences(answer, curve):
            console.print(line, highlight=False, soft_wrap=True, markup=False)
    for line in remarks(answer):
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _names(text: str, option: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise InputError(f"{text!r} names one twice, or none", where=option, mend="names with commas, each once")
    return tuple(names)


def share(text: str) -> float:
    """``1%`` or ``0.01``. Raises: InputError."""
    number = text.strip().removesuffix("%")
    try:
        value = float(number) / (100.0 if text.strip().endswith("%") else 1.0)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise InputError(
            f"{text!r} is no share of time", where="--risk", mend="write 1% or 0.01, above 0 and below 100%"
        )
    return value
