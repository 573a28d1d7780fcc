"""Applications: learn EAR coefficients, keep their metrics in a database, list it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from wattqueue.model.ear import Coefficients
    from wattqueue.model.ear_learning import Fit

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Database = Annotated[str, typer.Option("--database", help="SQLite file, or a database URL.")]
Eacct = Annotated[Path, typer.Argument(help="CSV that eacct -c wrote.", show_default=False)]
DEFAULT = "applications.db"


@app.command()
def learn(
    runs: Eacct,
    out: Annotated[Path, typer.Option("-o", "--out", help="Our CSV (.csv), or EAR's binary file.")],
    module: Annotated[str, typer.Option(help="Name of the hardware configuration.")],
    worst_condition: Annotated[float, typer.Option(help="Refuse benchmarks more collinear than this.")] = 1e3,
) -> None:
    """Learn coefficients from benchmark runs at several frequencies (EAR's learning phase)."""
    import numpy as np

    from wattqueue.formats.eacct import read_eacct
    from wattqueue.model.ear_learning import Runs
    from wattqueue.model.ear_learning import learn as fit_pairs

    rows = read_eacct(runs)
    known = np.isfinite(rows.frequency_hz)
    stepped = np.round(rows.frequency_hz[known] / 1e8) * 1e8
    fit = fit_pairs(Runs(rows.app[known], stepped, rows.metrics.take(known)), worst_condition=worst_condition)
    _write(out, module, fit.coefficients)
    _report(fit, len(rows), int(known.sum()), rows.left_out)
    print(f"wrote {out}")


@app.command("import")
def import_(
    runs: Eacct,
    hardware: Annotated[str, typer.Option(help="Hardware configuration that the jobs ran on.")],
    database: Database = DEFAULT,
    coefficients: Annotated[
        Path | None, typer.Option(help="Coefficients (CSV): runs at any of their frequencies count.")
    ] = None,
) -> None:
    """Add finished jobs to the application database."""
    from wattqueue.formats.eacct import read_eacct
    from wattqueue.formats.ear import read_coefficients_csv
    from wattqueue.store.applications import ApplicationDatabase, runs_of

    rows = read_eacct(runs)
    tables = read_coefficients_csv(coefficients) if coefficients is not None else {}
    used = ApplicationDatabase.open(database).learn(runs_of(rows, hardware), tables)
    print(f"{database}: {used} of {len(rows)} runs used, {rows.left_out} rows without a measurement left out")
    for reason in rows.reasons[:10]:
        print(f"  {reason}")


@app.command("list")
def list_(database: Database = DEFAULT) -> None:
    """List the entries of the application database."""
    from wattqueue.store.applications import ApplicationDatabase

    entries = list(ApplicationDatabase.open(database, make=False).entries())
    if not entries:
        print(f"{database}: no entries yet (wattqueue apps import adds finished jobs)")
    for e in entries:
        print(
            f"{e.app:<20} {e.hardware:<12} {e.frequency_hz / 1e9:5.2f} GHz {e.time_s:12.2f} s {e.power_w:8.1f} W "
            f"CPI {e.cpi:6.3f} TPI {e.tpi:9.3f}  {e.runs} runs"
        )


@app.command()
def misfits(
    user: Annotated[str, typer.Argument(help="Whose record.", show_default=False)], database: Database = DEFAULT
) -> None:
    """List a user's jobs that were not the application that they named."""
    from wattqueue.store.applications import ApplicationDatabase

    found = list(ApplicationDatabase.open(database, make=False).misfits(user))
    if not found:
        print(f"{database}: no misfits of {user}")
    for m in found:
        print(f"job {m.job_id}: said {m.claimed}, was {m.found or 'nothing known'} ({m.distance:.1f} tolerances away)")


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="Coefficients: our CSV (.csv), or EAR's binary file.")],
    target: Annotated[Path, typer.Argument(help="The other form.")],
    module: Annotated[str, typer.Option(help="Which hardware configuration of the CSV.")],
) -> None:
    """Turn EAR's binary coefficient file into our CSV, or back."""
    from wattqueue.errors import InputError
    from wattqueue.formats.ear import read_coefficients_binary, read_coefficients_csv

    if source.suffix != ".csv":
        _write(target, module, read_coefficients_binary(source))
        return
    tables = read_coefficients_csv(source)
    if module not in tables:
        raise InputError(f"no module {module!r}", where=source, mend=f"it has {', '.join(tables)}")
    _write(target, module, tables[module])


def _write(path: Path, module: str, table: Coefficients) -> None:
    from wattqueue.formats.ear import write_coefficients_binary, write_coefficients_csv

    if path.suffix == ".csv":
        write_coefficients_csv(path, {module: table})
    else:
        write_coefficients_binary(path, table)


def _report(fit: Fit, rows: int, used: int, left_out: int) -> None:
    import numpy as np

    flag = fit.coefficients.available
    print(f"{used} of {rows} runs used ({left_out} rows without a measurement left out)")
    fewest = int(fit.benchmarks[flag].min())
    print(f"{int(flag.sum())} of {flag.size} pairs of frequencies fitted, {fewest} benchmarks or more")
    print(f"rank {int(fit.rank[flag].min())} of 3, condition at most {fit.condition[flag].max():.3g}")
    watts, cpi = fit.power_rms_w, fit.cpi_rms
    print(
        f"left over (root mean square): watts {np.nanmean(watts):.2f} on average, {np.nanmax(watts):.2f} at most; "
        f"CPI {np.nanmean(cpi):.4f} and {np.nanmax(cpi):.4f}"
    )
