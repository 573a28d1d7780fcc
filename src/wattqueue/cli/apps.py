"""Applications: learn EAR coefficients, keep application metrics in a database, list them.

The application database keeps, per application and hardware configuration, the metrics that EAR measured (seconds,
watts, CPI, memory transactions), from which the estimator ``ear`` predicts watts and run time at every frequency. A
site fills it in three steps: ``learn`` coefficients from a set of benchmarks at several frequencies, ``import``
finished jobs from EAR's accounting (``eacct -c``), and name both in the live configuration. ``misfits`` lists users'
false claims, ``convert`` exchanges coefficients with EAR's own binary format.

Reference: paper 1, sections 3.1 to 3.4.

Every command prints how many rows were of use, so that a site sees what its accounting lacks. Commands that only read
do not create a database that is missing (``make=False``): a mistyped name is an error, not an empty list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wattqueue.verbs import Printed, verb_of

if TYPE_CHECKING:
    from wattqueue.model.ear import Coefficients
    from wattqueue.model.ear_learning import Fit

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Database = Annotated[str, typer.Option("--database", help="SQLite file, or a database URL.")]
"""Option of every command that uses the database."""
Eacct = Annotated[Path, typer.Argument(help="CSV that eacct -c wrote.", show_default=False)]
"""Argument of the commands that read EAR's accounting."""
DEFAULT = "applications.db"
"""Database in the current folder where none is named."""


@app.command()
@verb_of(Printed)
def learn(
    printed: Printed,
    runs: Eacct,
    out: Annotated[Path, typer.Option("-o", "--out", help="WattQueue's CSV (.csv), or EAR's binary file.")],
    module: Annotated[str, typer.Option(help="Name of the hardware configuration.")],
    worst_condition: Annotated[
        float, typer.Option(min=1.0, max=1e15, help="Refuse benchmarks more collinear than this.")
    ] = 1e3,
) -> None:
    """Learn coefficients from benchmark runs at several frequencies (EAR's learning phase).

    Prints how well they are determined; refuses benchmarks that are too alike.
    """
    import numpy as np

    from wattqueue.formats.atomic_folder import written
    from wattqueue.formats.ear.eacct import read_eacct
    from wattqueue.model.ear_learning import BenchmarkRuns
    from wattqueue.model.ear_learning import learn as fit_pairs

    rows = read_eacct(runs)
    # Rows without a frequency cannot belong to a pair of frequencies; their number is printed.
    known = np.isfinite(rows.frequency_hz)
    # Average measured frequencies scatter around the one that was set: round to 0.1 GHz, the step of the governors.
    stepped = np.round(rows.frequency_hz[known] / 1e8) * 1e8
    fit = fit_pairs(BenchmarkRuns(rows.app[known], stepped, rows.metrics.take(known)), worst_condition=worst_condition)
    done = written(out)
    _write(out, module, fit.coefficients)
    figures = _figures(fit, len(rows), int(known.sum()), rows.left_out)
    printed.show(lambda: figures, lambda: [*_lines(figures), done])


@app.command("import")
@verb_of(Printed)
def import_(
    printed: Printed,
    runs: Eacct,
    hardware: Annotated[str, typer.Option(help="Hardware configuration that the jobs ran on.")],
    database: Database = DEFAULT,
    coefficients: Annotated[
        Path | None, typer.Option(help="Coefficients (CSV): runs at any of their frequencies count.")
    ] = None,
) -> None:
    """Add finished jobs to the application database.

    Runs at a frequency without coefficients are not used; prints how many were, and the first reasons.
    """
    from wattqueue.formats.ear.eacct import read_eacct
    from wattqueue.formats.ear.files import read_coefficients_csv
    from wattqueue.store.applications import ApplicationDatabase, runs_of

    rows = read_eacct(runs)
    tables = read_coefficients_csv(coefficients) if coefficients is not None else {}
    used = ApplicationDatabase.open(database).learn(runs_of(rows, hardware), tables)
    # Accounting of years may hold thousands of rows without a measurement; ten show the kind.
    reasons = rows.reasons[:10]
    counts = f"{used} of {len(rows)} runs used, {rows.left_out} rows without a measurement left out"
    printed.show(
        lambda: {"runs": len(rows), "used": used, "left_out": rows.left_out, "reasons": reasons},
        lambda: [f"{database}: {counts}", *(f"  {reason}" for reason in reasons)],
    )


@app.command("list")
@verb_of(Printed)
def list_(printed: Printed, database: Database = DEFAULT) -> None:
    """List the entries of the application database, one line per application and hardware configuration."""
    from wattqueue.store.applications import ApplicationDatabase

    # TPI are memory transactions per instruction, CPI cycles per instruction, as EAR measured them.
    entries = list(ApplicationDatabase.open(database, make=False).entries())
    lines = [
        f"{e.app:<20} {e.hardware:<12} {e.frequency_hz / 1e9:5.2f} GHz {e.time_s:12.2f} s {e.power_w:8.1f} W "
        f"CPI {e.cpi:6.3f} TPI {e.tpi:9.3f}  {e.runs} runs"
        for e in entries
    ]
    printed.show(
        lambda: {"entries": [asdict(e) for e in entries]},
        lambda: lines or [f"{database}: no entries yet (wattqueue apps import adds finished jobs)"],
    )


@app.command()
@verb_of(Printed)
def misfits(
    printed: Printed,
    user: Annotated[str, typer.Argument(help="Name of the user.", show_default=False)],
    database: Database = DEFAULT,
) -> None:
    """List a user's jobs that did not run the application that they named."""
    from wattqueue.store.applications import ApplicationDatabase

    found = list(ApplicationDatabase.open(database, make=False).misfits(user))
    lines = [
        f"job {m.job_id}: claimed {m.claimed}, fits {m.found or 'no known application'} ({m.distance:.1f} tol.)"
        for m in found
    ]
    printed.show(
        lambda: {"misfits": [asdict(m) for m in found]}, lambda: lines or [f"{database}: no misfits of {user}"]
    )


@app.command()
@verb_of(Printed)
def convert(
    printed: Printed,
    source: Annotated[Path, typer.Argument(help="Coefficients: WattQueue's CSV (.csv), or EAR's binary file.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The other format, by the ending of its name.")],
    module: Annotated[str, typer.Option(help="Which hardware configuration of the CSV.")],
) -> None:
    """Convert EAR's binary coefficient file to WattQueue's CSV, or back."""
    from wattqueue.errors import InputError
    from wattqueue.formats.atomic_folder import written
    from wattqueue.formats.ear.files import read_coefficients_binary, read_coefficients_csv

    if source.suffix != ".csv":
        table = read_coefficients_binary(source)
    else:
        tables = read_coefficients_csv(source)
        if module not in tables:
            raise InputError(f"no module {module!r}", where=source, hint=f"it has {', '.join(tables)}")
        table = tables[module]
    done = written(out)
    _write(out, module, table)
    printed.show(lambda: {"written": str(out)}, lambda: [done])


def _write(path: Path, module: str, table: Coefficients) -> None:
    """Write coefficients in the format that the file's name asks for. Raises: OutputError.

    ``module`` names the hardware configuration in a CSV; EAR's binary file has no place for it.
    """
    from wattqueue.formats.ear.files import write_coefficients_binary, write_coefficients_csv

    if path.suffix == ".csv":
        write_coefficients_csv(path, {module: table})
    else:
        write_coefficients_binary(path, table)


def _figures(fit: Fit, rows: int, used: int, left_out: int) -> dict[str, Any]:
    """Return how many runs were used and how well the coefficients fit.

    ``fit`` is the result of the learning, ``rows`` and ``used`` count runs, ``left_out`` rows without a measurement.
    The others are the worst values over all pairs of frequencies: the number of benchmarks, the rank and condition of
    the regression (3 coefficients each for watts and CPI), and root mean square residuals in watts and in cycles per
    instruction.
    """
    import numpy as np

    # Pairs that no benchmark covers have no coefficients; they would make every minimum 0.
    flag = fit.coefficients.available
    return {
        "runs": rows, "used": used, "left_out": left_out,
        "pairs": flag.size, "fitted": int(flag.sum()), "benchmarks": int(fit.benchmarks[flag].min()),
        "rank": int(fit.rank[flag].min()), "condition": float(fit.condition[flag].max()),
        "power_rms_w_mean": float(np.nanmean(fit.power_rms_w)), "power_rms_w_max": float(np.nanmax(fit.power_rms_w)),
        "cpi_rms_mean": float(np.nanmean(fit.cpi_rms)), "cpi_rms_max": float(np.nanmax(fit.cpi_rms)),
    }  # fmt: skip


def _lines(of: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sentences of these figures."""
    yield f"{of['used']} of {of['runs']} runs used ({of['left_out']} rows without a measurement left out)"
    yield f"{of['fitted']} of {of['pairs']} pairs of frequencies fitted, {of['benchmarks']} benchmarks or more"
    yield f"rank {of['rank']} of 3, condition at most {of['condition']:.3g}"
    yield (
        f"residuals (root mean square): watts {of['power_rms_w_mean']:.2f} on average, {of['power_rms_w_max']:.2f} at "
        f"most; CPI {of['cpi_rms_mean']:.4f} and {of['cpi_rms_max']:.4f}"
    )
