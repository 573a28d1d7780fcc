"""Energy budgets: what is used and set aside of yours, and what the period will end with; set one.

A live controller keeps the books (``[budgets]`` in live.toml) and writes a file that each user alone can read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from wattqueue.verbs import Printed, verb_of

if TYPE_CHECKING:
    from wattqueue.live.config import LiveConfig

app = typer.Typer(rich_markup_mode=None)
Config = Annotated[Path, typer.Option("--config", "-c", help="The controller's TOML file.")]
CONFIG = Path("/etc/wattqueue/live.toml")
JOURNAL = "budget-journal.jsonl"
CHECKED_S = 600.0
"""How often it is examined whether Slurm can keep the budgets."""
WARN = 0.9
"""Share of a budget that is booked, from which its users are warned."""


@app.callback(invoke_without_command=True)
@verb_of(Printed)
def show(
    printed: Printed,
    context: typer.Context,
    *,
    warnings: Annotated[bool, typer.Option("--warnings", help="Only of those that are nearly used up.")] = False,
    config: Config = CONFIG,
) -> None:
    """Show the budgets that concern you, with a forecast of the period's end; all of them as the controller's account.

    Exit status 1: none concerns you, or you have had no job since the controller began. With --warnings nothing is
    printed and the status is 0 where none is nearly used up: for a script at login.
    """
    if context.invoked_subcommand is not None:
        return
    import json
    import os

    from wattqueue.live.config import energy_folder
    from wattqueue.live.files.energy_records import BUDGETS, JOBS, USERS
    from wattqueue.live.files.reading import as_written

    settings, _ = _file(config)
    folder = energy_folder(settings, config)[0]
    every = folder / BUDGETS
    path = every if os.access(every, os.R_OK) else folder / USERS / str(os.getuid()) / JOBS / BUDGETS
    found: dict[str, Any] = {"budgets": []}
    if path.is_file():
        with as_written(path, "file of budgets of the controller", "is the controller running?"):
            found = json.loads(path.read_text())
    if warnings:
        found["budgets"] = [one for one in found["budgets"] if any("warning: " in line for line in _lines(one))]
    lines = [line for one in found["budgets"] for line in _lines(one)]
    if warnings and not lines:
        return
    printed.show(lambda: found, lambda: lines or ["no budget concerns you, or you have had no job for a while"])
    if not lines:
        raise typer.Exit(1)


def _file(config: Path) -> tuple[LiveConfig, Path]:
    """Return a site's configuration, and its file of budgets. Raises: InputError where it has none."""
    from wattqueue.errors import InputError
    from wattqueue.live.config import load_config

    settings = load_config(config)
    if settings.budgets is None:
        hint = 'its administrators add [budgets] with file = "budgets.toml"'
        raise InputError("the site has no budgets", where=config, hint=hint)
    return settings, settings.budgets.file


def _lines(one: Mapping[str, Any]) -> Iterator[str]:
    """Yield a budget in words, and a warning before it is used up."""
    import time

    whose = next((f"{kind} {one[kind]}" for kind in ("account", "project") if one.get(kind)), "")
    who = whose or ", ".join(one["users"][:5]) or "all jobs"
    booked, amount = one["used"] + one["held"], one["amount"]
    of = "no limit now" if amount is None else f"of {_amount(one, amount)}"
    renewal_s = one["renewal_s"]
    at = "" if renewal_s is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(renewal_s))
    until = f"; it renews {at}" if at else ""
    waits = f"; {one['barred']} jobs wait for it" if one["barred"] else ""
    text = (
        f"budget {one['name']} ({who}): {_amount(one, one['used'])} used, {_amount(one, one['held'])} set aside, {of}"
    )
    yield f"{text}{until}{waits}"
    if one.get("beyond"):
        yield f"  {_amount(one, one['beyond'])} were used in spare hours, beyond it"
    if one.get("kept", (0, 0))[1]:
        yield f"  {one['kept'][0]} of {one['kept'][1]} periods before were kept"
    if one.get("idle"):
        yield f"  on average {100.0 * one['idle']:.1f} % of it were set aside for ended jobs and never used"
    if one["forecast"] is not None:
        low, middle, high = (_amount(one, value) for value in one["forecast"])
        yield f"  forecast of what will be used then: {middle} (8 of 10 times {low} to {high})"
    if amount is not None and booked >= WARN * amount:
        yield f"  warning: {100 * booked // max(amount, 1)} % of it are used or set aside"
    elif amount is not None and one["forecast"] is not None and one["forecast"][1] > amount:
        yield "  warning: it is used up before it renews, if use goes on as in the last days"


def _amount(one: Mapping[str, Any], value: int) -> str:
    from wattqueue.model.budgets import MICRO, MJ_PER_KWH

    whole = value / (MJ_PER_KWH if one["unit"] == "kWh" else MICRO)
    return f"{whole:,.{0 if whole >= 100 else 2}f} {one['unit']}"


@app.command("set")
@verb_of(Printed)
def set_(
    printed: Printed,
    name: Annotated[str, typer.Argument(help="Name of the budget; one of this name is replaced.", show_default=False)],
    *,
    amount: Annotated[float, typer.Option(min=0.0, max=1e12, help="Of one period, in the unit.")],
    unit: Annotated[str, typer.Option(help="kWh, or what --prices counts: EUR, gCO2.")] = "kWh",
    user: Annotated[str | None, typer.Option(help="Of this user's jobs.")] = None,
    account: Annotated[str | None, typer.Option(help="Of this account's jobs; without any of these: of all.")] = None,
    project: Annotated[str | None, typer.Option(help="Of jobs for this project, in Slurm their wckey.")] = None,
    period: Annotated[Literal["day", "week", "month"], typer.Option(help="How often it renews.")] = "month",
    quantile: Annotated[
        float | None, typer.Option(min=0.01, max=1.0, help="Set aside what this share of jobs used, not the maximum.")
    ] = None,
    prices: Annotated[Path | None, typer.Option(help="CSV of prices or intensities, for another unit.")] = None,
    qos: Annotated[str | None, typer.Option(help="Slurm's QOS of its jobs, for `wattqueue budget keep`.")] = None,
    over: Annotated[
        Literal["wait", "spare-hours"], typer.Option(help="What becomes of jobs for which it has no room.")
    ] = "wait",
    config: Config = CONFIG,
) -> None:
    """Set a budget in the site's file; the controller takes it over in its next round."""
    from wattqueue.formats.budgets import set_budget

    _, path = _file(config)
    mode = {} if quantile is None else {"mode": "quantile", "quantile": quantile}
    mode |= {} if over == "wait" else {"over": over}
    row = {
        "name": name, "amount": amount, "unit": unit, "period": period, "user": user, "account": account,
        "project": project, "qos": qos, "prices": None if prices is None else str(prices.absolute()), **mode,
    }  # fmt: skip
    set_budget(path, {key: value for key, value in row.items() if value is not None})
    printed.show(lambda: {"written": str(path)}, lambda: [f"wrote {path}: budget {name}"])


@app.command()
def keep(
    *,
    journal: Annotated[
        Path | None, typer.Option(help="File of all changes; default: budget-journal.jsonl beside the configuration.")
    ] = None,
    every: Annotated[float, typer.Option(min=1.0, max=3600.0, help="Seconds between two looks.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    config: Config = CONFIG,
) -> None:
    """Keep Slurm's limits on the QOS of budgets at what is left of them: they hold while no controller is at work.

    Needs an account with Slurm's Administrator level (root).
    """
    import sys
    import time

    from wattqueue.errors import InputError, WattQueueError
    from wattqueue.formats.budgets import read_budgets
    from wattqueue.live.config import energy_folder
    from wattqueue.live.files.energy_records import ROOM
    from wattqueue.live.slurm.budget_qos import BudgetJournal, BudgetKeeper, require_kept
    from wattqueue.live.slurm.connect import direct_commands

    settings, file = _file(config)
    slurm, checked_s = direct_commands(settings), -math.inf
    keeper = BudgetKeeper(
        slurm, energy_folder(settings, config)[0] / ROOM, BudgetJournal(journal or config.absolute().parent / JOURNAL)
    )
    while True:
        try:
            if time.monotonic() - checked_s >= CHECKED_S:
                budgets = {one.qos: one.name for one in read_budgets(file) if one.qos}
                if not budgets:
                    hint = 'state qos = "NAME" in a budget, or `wattqueue budget set ... --qos NAME`'
                    raise InputError("no budget names a QOS", where=file, hint=hint)
                for line in require_kept(slurm, budgets):
                    print(f"note: {line}", flush=True)
                checked_s = time.monotonic()
            for line in keeper.step():
                print(line, flush=True)
        except InputError:
            raise
        except WattQueueError as error:
            if once:
                raise
            print(error, file=sys.stderr, flush=True)
        if once:
            return
        time.sleep(every)
