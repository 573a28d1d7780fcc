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
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.table import Table

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
    from wattqueue.cli._never_ran import say_never_ran
    from wattqueue.cli._progress import running
    from wattqueue.formats.pages import write_files
    from wattqueue.whatif.answer import conclude
    from wattqueue.whatif.ask import ask, prepare
    from wattqueue.whatif.files import files

    setup = prepare(question)
    # One run without a cap per configuration, which waits and energy are compared with.
    runs = len(setup.names) * (1 + len(setup.caps))
    with TemporaryDirectory(prefix="wattqueue-") as folder:
        with running(runs * len(setup.jobs), "what if", runs, "runs") as tell:
            found = ask(setup, Shared(Path(folder)), workers=workers, tell=tell)
        answer = conclude(setup, found)
        if out is not None:
            write_files(out, files(answer))
        say_never_ran(works(answer))
        print_answer(answer)
    if out is not None:
        typer.echo(f"{out / 'report.html'} (with whatif.csv, payers.csv and whatif.json)")


def works(answer: Answer) -> Iterator[tuple[str, WorkDone]]:
    """Yield the work of each run by the name of its configuration and cap."""
    for curve in answer.curves:
        texts = ("no cap", *(cap.text for cap in answer.setup.caps))
        for text, ran in zip(texts, (curve.plain, *curve.ran), strict=True):
            yield f"{curve.label}, {text}", ran.work


def print_answer(answer: Answer, console: Console | None = None) -> None:
    """Print one table per configuration, the sentences below it, and the remarks about the inputs.

    A terminal that is too narrow for the table gets one paragraph per cap instead. Lines are broken at the width of a
    terminal; in a pipe or a file each sentence is one line, so that it can be searched for, and the table is as wide
    as it needs to be.

    Args:
        answer: What to print.
        console: Where to print; None for stdout.
    """
    from rich.console import Console

    from wattqueue.whatif.text import heads, remarks, sentences, table_rows

    console = console or Console()
    for curve in answer.curves:
        rows, names = table_rows(answer, curve), heads(answer)
        # Columns without any value are left out: costs without prices, carbon without intensities.
        keep = [k for k in range(len(names)) if any(row[k] for row in rows)]
        table = _table(names, rows, keep)
        _say(console, f"{Path(answer.setup.task.workload).name} on {answer.setup.machine.name}: {curve.label}", "bold")
        need = _width(names, rows, keep)
        if not console.is_terminal:
            console.width = max(console.width, need + 12)  # a pipe has no width to fit
        if need <= console.width:
            console.print(table)
        else:
            _print_paragraphs(console, names, rows, keep)
        for line in sentences(answer, curve):
            _say(console, line)
    for line in remarks(answer):
        _say(console, line)


def _width(names: Sequence[str], rows: Sequence[Sequence[str]], keep: Sequence[int]) -> int:
    """Return the characters that the table needs, so that only marks may be broken, and those between words.

    ``keep`` are the columns that are shown. A column is as wide as its longest word in the head (heads are broken at
    blanks) or its longest value; values are never broken apart from marks. Each column has a margin of two
    characters.
    """
    from wattqueue.whatif.text import MARK

    texts = (
        [*names[k].split(), *(word for row in rows for word in (row[k].split() if k == MARK else [row[k]]))]
        for k in keep
    )
    return sum(max(map(len, column)) + 2 for column in texts)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], keep: Sequence[int]) -> Table:
    """Return the table of the columns ``keep``; heads are broken at blanks so that columns are narrow.

    Figures stand on the right, words on the left. Only the column of marks may be broken, and ``slowdown`` is broken
    by hand, since it would set the width of a column of short figures.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from wattqueue.whatif.text import MARK, WORDS

    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, collapse_padding=True)
    for k in keep:
        head = names[k].replace(" ", "\n").replace("slowdown", "slow-\ndown")
        table.add_column(head, justify="left" if k in WORDS else "right", no_wrap=k != MARK)
    for row in rows:
        table.add_row(*(row[k] for k in keep))
    return table


def _print_paragraphs(
    console: Console, names: Sequence[str], rows: Sequence[Sequence[str]], keep: Sequence[int]
) -> None:
    """Print one paragraph per row: cap, watts and mark, below them every other value with its name.

    Used where the table does not fit. The names are those of the table's heads, so both forms can be compared.
    Columns 0 to 2 are cap, watts and mark in every table (``table_rows``); empty values are left out.
    """
    for row in rows:
        watts = f" {row[1]} {names[1]}" if row[1] else ""
        _say(console, f"{names[0]} {row[0]}{watts}{f': {row[2]}' if row[2] else ''}", "bold")
        for k in keep:
            if k > 2 and row[k]:
                _say(console, f"  {names[k]}: {row[k]}")


def _say(console: Console, line: str, style: str = "") -> None:
    """Print a sentence, broken at the width of a terminal; blanks at its beginning indent all of its lines.

    ``style`` is one of rich. Markup is off: file names and labels may contain brackets. Below 20 characters of width
    lines are not broken further.
    """
    import textwrap

    if not console.is_terminal:
        console.print(line, style=style, highlight=False, soft_wrap=True, markup=False)
        return
    indent = " " * (len(line) - len(line.lstrip()))
    lines = textwrap.wrap(
        line, max(console.width, 20), subsequent_indent=indent, break_on_hyphens=False, break_long_words=True
    )
    for part in lines:
        console.print(part, style=style, highlight=False, markup=False)
