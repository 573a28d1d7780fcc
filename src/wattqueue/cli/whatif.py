"""Compare power caps: waits, risk, cost and carbon of each, and the lowest cap that the data certify as safe.

``run`` turns the options into a ``Question``; ``_answer`` runs every cap and writes and prints the answer. The table
in the terminal, the page and the files show the same figures, since all of them read one ``Answer``.

Each cap is simulated for each policy and estimator, beside one run without a cap. ``wattqueue.whatif`` has the
computation (``ask``), the conclusions (``answer``) and the texts (``text``); this file has the options and the layout
of the terminal.

Nothing is written before all runs have finished, and all files are written or none. The tables are printed after the
files, so that a reader who leaves early (``| head``) does not prevent them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wattqueue.formats.duration import duration_s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wattqueue.model.comparability import WorkDone
    from wattqueue.whatif.answer import Answer
    from wattqueue.whatif.ask import Question


def run(
    jobs: Annotated[str, typer.Argument(metavar="JOBS", help="A trace or job table, or marconi:days=7,load=0.9.")],
    *,
    cap: Annotated[str, typer.Option(help="60%..100%, 60%..100%:10%, 300kW..500kW:50kW, or a list.")] = "60%..100%",
    machine: Annotated[str | None, typer.Option(help="A machine of the catalogue, or a TOML file.")] = None,
    nodes: Annotated[int | None, typer.Option(help="A plain machine of so many nodes; default: the trace's.")] = None,
    node_watts: Annotated[str | None, typer.Option(help="Watts of a plain node, IDLE:MAX.")] = None,
    policy: Annotated[str, typer.Option(help="Policies, or my.toml:row; separate several by commas.")] = "easy",
    estimator: Annotated[
        str | None, typer.Option(help="Estimators instead of the policies' own, separated by commas.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="AXIS=PART", help="Changes a choice of each policy.")
    ] = None,
    risk: Annotated[str, typer.Option(help="Accepted share of time above the cap.")] = "1%",
    prices: Annotated[Path | None, typer.Option(help="CSV of time and price.")] = None,
    price_unit: Annotated[str, typer.Option(help="Unit of the prices.")] = "EUR/MWh",
    intensity: Annotated[Path | None, typer.Option(help="CSV of time and carbon intensity.")] = None,
    intensity_unit: Annotated[str, typer.Option(help="Unit of the carbon intensities.")] = "gCO2/kWh",
    start: Annotated[
        str | None, typer.Option(help="Date of the trace's time 0, or of its first job where the trace has dates.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Correct dates whose UTC offset contradicts their neighbours'.")
    ] = False,
    at: Annotated[
        str | None, typer.Option(help="The cap to examine closely. [lowest safe, else knee, else lowest]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of generated workloads.")] = 0,
    default_walltime: Annotated[
        str | None, typer.Option(help="Walltime of jobs without one, such as 24h. [run time]")
    ] = None,
    procs_per_node: Annotated[int, typer.Option(min=1, max=2**31 - 1, help="Processors per node of an SWF trace.")] = 1,
    workers: Annotated[int | None, typer.Option(min=1, max=4096, help="Number of processes. [one per core]")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for report.html, whatif.csv, payers.csv, whatif.json.")
    ] = None,
) -> None:
    """Compare power caps: waits, risk, cost and carbon of each, and the lowest cap that the data certify as safe."""
    from wattqueue.runs.task import Task
    from wattqueue.whatif.options import question_of

    task = Task(
        jobs, machine, nodes, node_watts, seed=seed,
        default_walltime_s=duration_s(default_walltime, "--default-walltime"), procs_per_node=procs_per_node,
    )  # fmt: skip
    question = question_of(
        task, cap=cap, policy=policy, settings=settings or (), estimator=estimator, risk=risk, prices=prices,
        price_unit=price_unit, intensity=intensity, intensity_unit=intensity_unit, start=start, repair=repair, at=at,
    )  # fmt: skip
    _answer(question, workers, out)


def _answer(question: Question, workers: int | None, out: Path | None) -> None:
    """Run all caps, write the files, print the tables.

    The runs keep their columns mapped from the temporary folder, so everything is written and printed within it.
    Files come before the print-out: a reader of a pipe may leave early, and the results must not be lost with it.

    Args:
        question: The options.
        workers: Number of processes, None for one per core.
        out: Folder of the files, None for none.
    """
    from tempfile import TemporaryDirectory

    from wattqueue.campaign.shared import Shared
    from wattqueue.cli._table import print_document
    from wattqueue.formats.pages import write_files
    from wattqueue.terminal import running, say_never_ran
    from wattqueue.whatif.answer import conclude
    from wattqueue.whatif.ask import ask, prepare
    from wattqueue.whatif.page import document, files

    setup = prepare(question)
    # One run without a cap per configuration, which waits and energy are compared with.
    runs = len(setup.names) * (1 + len(setup.caps))
    with TemporaryDirectory(prefix="wattqueue-") as folder:
        with running(runs * len(setup.jobs), "what if", runs, "runs") as tell:
            found = ask(setup, Shared(Path(folder)), workers=workers, tell=tell)
        answer = conclude(setup, found)
        shown = document(answer)
        if out is not None:
            write_files(out, files(answer, shown))
        say_never_ran(works(answer))
        print_document(shown)
    if out is not None:
        typer.echo(f"{out / 'report.html'} (with whatif.csv, payers.csv and whatif.json)")


def works(answer: Answer) -> Iterator[tuple[str, WorkDone]]:
    """Yield the work of each run by the name of its configuration and cap."""
    for curve in answer.curves:
        texts = ("no cap", *(cap.text for cap in answer.setup.caps))
        for text, ran in zip(texts, (curve.plain, *curve.ran), strict=True):
            yield f"{curve.label}, {text}", ran.work
