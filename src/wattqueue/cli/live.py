"""Drive a real Slurm: observe, advise or control; safe when it dies."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

app = typer.Typer(rich_markup_mode=None)
Mode = Literal["observe", "advise", "control"]
ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="The controller's TOML file.", show_default=False)]


@app.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The controller's TOML file.", show_default=False)
    ] = None,
    mode: Annotated[Mode | None, typer.Option(help="observe, advise or control, in place of the file's.")] = None,
    rounds: Annotated[int, typer.Option(min=0, help="Stop after so many rounds; 0: when told to.")] = 0,
) -> None:
    """Run the controller: it observes, and in control mode writes to Slurm. The default writes nothing."""
    if context.invoked_subcommand is not None:
        return
    if config is None:
        raise typer.BadParameter("live needs --config FILE, or a command: install, status, audit, release, replay")
    from rich.console import Console

    from wattqueue.cli._progress import say_if_compiling
    from wattqueue.live.assemble import assemble, run_until_told
    from wattqueue.live.config import load_config

    settings = load_config(config)
    say_if_compiling(Console(stderr=True))
    if mode is not None:
        settings = settings.model_copy(update={"mode": mode})
    run_until_told(assemble(settings), settings, _say, rounds)


@app.command()
def install(
    config: ConfigOption,
    into: Annotated[Path, typer.Option(help="Slurm's configuration folder.")] = Path("/etc/slurm"),
    write: Annotated[bool, typer.Option("--write", help="Write the files; without it they are only shown.")] = False,
) -> None:
    """Put job_submit.lua and the TaskProlog into Slurm's folder; says what slurm.conf still needs."""
    from wattqueue.live.assemble import settings_of, slurm_of
    from wattqueue.live.config import load_config
    from wattqueue.live.slurm import install as files

    settings = load_config(config)
    told = settings_of(settings, slurm_of(settings), 0)
    if write:
        for line in files.install(into, told, settings.frequency_dir):
            print(line)
    else:
        print(files.script(told), end="")
        print(f"-- not written; with --write it goes to {into / files.LUA}")
    print("slurm.conf needs these lines:")
    for line in files.slurm_conf_lines(into, told, settings.frequency_dir):
        print(f"  {line}")


@app.command()
def status(config: ConfigOption) -> None:
    """What the controller saw and did last."""
    from rich.console import Console
    from rich.table import Table

    from wattqueue.live.config import load_config
    from wattqueue.live.status import read_status

    values = read_status(load_config(config).run_dir)
    age_s = time.time() - float(values["time_s"])
    table = Table(title=f"wattqueue live, {values['mode']}, {age_s:.0f} s ago", show_header=False)
    for name, value in _lines(values):
        table.add_row(name, value)
    Console().print(table)


def _lines(values: dict[str, Any]) -> list[tuple[str, str]]:
    def watts(value: float | None) -> str:
        return "none" if value is None else f"{value / 1e3:,.2f} kW"

    pool = values["pool_w"]
    rows = [("cap", watts(values["cap_w"])), ("counted", watts(values["counted_w"]))]
    rows.append(("measured", "not measured" if values["measured_w"] is None else watts(values["measured_w"])))
    if pool is not None:
        rows.append(("pool", f"{pool['used']:,} of {pool['open']:,} W (of {pool['total']:,} in slurm.conf)"))
    rows += [(group, _counts(values[group])) for group in ("jobs", "nodes", "telemetry")]
    if not values["believed"]:
        rows.append(("telemetry is lost", "admitting by maxima, raising nothing"))
    rows += [("problem", text) for text in (*values["problems"], *values["errors"])]
    rows += [("would", text) for text in values["would"]]
    rows.append(("round", f"{values['round_s'] * 1e3:.0f} ms"))
    return rows


def _counts(values: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in values.items())


@app.command()
def audit(
    config: ConfigOption,
    verify: Annotated[bool, typer.Option("--verify", help="Check every row against the chain.")] = False,
    job: Annotated[str | None, typer.Option(help="Rows about one job or node.")] = None,
    last: Annotated[int, typer.Option(help="The last so many rows.")] = 20,
) -> None:
    """Every write to Slurm with who, why, before and after."""
    from wattqueue.errors import OutputError
    from wattqueue.live.config import load_config, read_secret
    from wattqueue.live.state.audit import open_log, rows_of
    from wattqueue.live.state.audit import verify as check
    from wattqueue.live.status import HEAD

    settings = load_config(config)
    engine = open_log(settings.state)
    if verify:
        key = read_secret(settings.audit_key_file).encode() if settings.audit_key_file is not None else b""
        verdict = check(engine, key, settings.run_dir / HEAD)
        if verdict.broken:
            text = f"row {verdict.broken} of {verdict.rows}: {verdict.reason}"
            raise OutputError(text, where="audit", mend="the log was changed: compare with a backup")
        print(f"{verdict.rows} rows, none changed")
        return
    for row in rows_of(engine, target=job, last=0 if job else last):
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(row["time_us"] / 1e6))
        what = f"{row['kind']} {row['target']}: {row['before']} -> {row['after']}" if row["kind"] else row["after"]
        print(f"{row['number']:>7} {at} {row['who']} {row['event']} {what} {row['why']}".rstrip())


@app.command()
def release(
    config: ConfigOption,
    force: Annotated[bool, typer.Option("--force", help="Even while the controller was seen lately.")] = False,
) -> None:
    """While the controller is away: release the jobs it holds; Slurm schedules alone, under the pool."""
    from wattqueue.live.assemble import release_all
    from wattqueue.live.config import load_config

    print(f"released {release_all(load_config(config), force=force)} jobs")


@app.command()
def replay(
    views: Annotated[Path, typer.Argument(help="A recording of a controller (record = FILE).", show_default=False)],
) -> None:
    """Decide recorded views again and compare with what was decided then, byte for byte."""
    from wattqueue.errors import OutputError
    from wattqueue.live.recording import replay as again

    count = different = first = 0
    for number, recorded, decided in again(views):
        count += 1
        if recorded != decided:
            different, first = different + 1, first or number
    if different:
        raise OutputError(f"{different} of {count} views are decided otherwise, the first in line {first}", where=views)
    print(f"{count} views, each decided as it was then")


def _say(line: str) -> None:
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime())}Z {line}", flush=True)
