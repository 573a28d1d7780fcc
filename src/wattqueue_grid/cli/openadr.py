"""Take OpenADR 3.1 events of a grid operator as load targets, prices and carbon intensities.

The section ``[openadr]`` of the controller's configuration names the VTN. A controller with that section takes the
events by itself; these commands are for a look, and for sites that hand the files to something else. Imports are inside
the functions: the command line must start fast.

- ``poll``: register, read the events once, write files, print what is taken and what is refused;
- ``follow``: the same until stopped, notified by webhook or MQTT where there is one; reports are sent;
- ``opt-out``, ``opt-in``: do not act on an event, or do again; the VTN gets a report of it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wattqueue.errors import InputError, OutputError
from wattqueue.terminal import say
from wattqueue.verbs import Printed, verb_of

if TYPE_CHECKING:
    from wattqueue.live.config import LiveConfig
    from wattqueue_grid.openadr.events import Outcome
    from wattqueue_grid.openadr.section import OpenADRSection
    from wattqueue_grid.openadr.ven import Ven

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="The controller's TOML file.", show_default=False)]
TargetsOption = Annotated[Path | None, typer.Option("--out", "-o", help="Write load targets to this CSV.")]
PricesOption = Annotated[Path | None, typer.Option(help="Write prices per MWh to this CSV.")]
CarbonOption = Annotated[Path | None, typer.Option(help="Write carbon intensities in gCO2/kWh to this CSV.")]
EventArgument = Annotated[str, typer.Argument(help="The event's id, as `poll` prints it.", show_default=False)]


@app.callback()
def _root() -> None:
    """Take OpenADR 3.1 events of a grid operator as load targets, prices and carbon intensities."""


@app.command()
@verb_of(Printed)
def poll(
    printed: Printed,
    config: ConfigOption,
    targets: TargetsOption = None,
    prices: PricesOption = None,
    carbon: CarbonOption = None,
) -> None:
    """Register, read the events once, and print what is taken and what is refused; send what reports are due."""
    from wattqueue_grid.openadr.memory import alone

    settings, _ = _settings(config)
    with alone(settings.run_dir):
        ven = _ven(config)
        try:
            now_s = time.time()
            ven.step(now_s)
            log, outcome, problems = ven.pop_log(), ven.outcome(now_s), [*ven.problems.values()]
            wrote = _write(outcome, targets, prices, carbon)
            said = [*log, *_lines(outcome), *wrote, *(f"problem: {text}" for text in problems)]
            printed.show(
                lambda: {"taken": outcome.taken, "refused": outcome.refused, "problems": problems}, lambda: said
            )
            if ven.failures:
                raise OutputError("the events could not be read", where=ven.section.vtn, hint="see the problem above")
        finally:
            ven.client.close()


@app.command()
def follow(
    config: ConfigOption, targets: TargetsOption = None, prices: PricesOption = None, carbon: CarbonOption = None
) -> None:
    """Follow events until stopped, and write the files again whenever they change; send the reports that are due."""
    from wattqueue_grid.openadr.service import VenService

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    service = VenService(_ven(config))
    service.start(say)
    shown: tuple[tuple[str, ...], ...] = ()
    problems: tuple[str, ...] = ()
    try:
        while not stop.wait(0.2):
            outcome = service.outcome()
            now = (outcome.taken, outcome.refused)
            if now != shown:
                shown = now
                for line in (*_lines(outcome), *_write(outcome, targets, prices, carbon)):
                    typer.echo(line)
            for text in (found := tuple(service.problems())):
                if text not in problems:
                    say(text)
            problems = found
    finally:
        service.close()


@app.command("opt-out")
@verb_of(Printed)
def opt_out(printed: Printed, event: EventArgument, config: ConfigOption) -> None:
    """Do not act on an event; the VTN gets a report of the operating state OPTED_OUT with the next look."""
    _opt(printed, event, config, out=True)


@app.command("opt-in")
@verb_of(Printed)
def opt_in(printed: Printed, event: EventArgument, config: ConfigOption) -> None:
    """Act on an event again that was opted out of."""
    _opt(printed, event, config, out=False)


def _opt(printed: Printed, event: str, config: Path, *, out: bool) -> None:
    """Write the opt-out where the VEN looks for it. Raises: InputError for an id that no event can have."""
    from wattqueue_grid.openadr.memory import load_memory, opt

    settings, section = _settings(config)
    memory, _ = load_memory(settings.run_dir, f"{section.vtn} {section.client_id}")
    if event not in memory.events:
        known = ", ".join(sorted(memory.events)[:10])
        raise InputError(f"no event {event[:40]}", where="event", hint=f"known: {known}" if known else "poll first")
    opt(settings.run_dir, event, out=out)
    done = f"opted {'out of' if out else 'in to'} {event}: reported with the next look at the VTN"
    printed.show(lambda: {"event": event, "opted_out": out}, lambda: [done])


def _settings(config: Path) -> tuple[LiveConfig, OpenADRSection]:
    """Return the configuration and its section. Raises: InputError where it has none."""
    from wattqueue.live.config import load_config
    from wattqueue_grid.openadr.section import OpenADRSection

    settings = load_config(config)
    if not isinstance(settings.openadr, OpenADRSection):
        raise InputError("no section [openadr]", where=config, hint="see the guide, OpenADR")
    return settings, settings.openadr


def _ven(config: Path) -> Ven:
    """Return the VEN of a configuration. Raises: InputError where a file of it cannot be used."""
    from wattqueue.formats.machine.file import load_machine
    from wattqueue.live.files.reading import read_secret
    from wattqueue_grid.openadr.service import ven_of

    settings, section = _settings(config)
    return ven_of(section, read_secret(section.client_secret_file), load_machine(settings.machine), settings.run_dir)


def _lines(outcome: Outcome) -> list[str]:
    """Return what is taken and what is refused."""
    taken, refused = (f"taken: {line}" for line in outcome.taken), (f"refused: {line}" for line in outcome.refused)
    return [*taken, *refused] or ["no events"]


def _write(outcome: Outcome, targets: Path | None, prices: Path | None, carbon: Path | None) -> Iterator[str]:
    """Write the files that are asked for, and yield what was written.

    A file of an earlier event must not outlast it, so one is always written.
    """
    import numpy as np

    from wattqueue.formats.load_target import write_load_targets
    from wattqueue.formats.series import write_steps

    if targets is not None:
        write_load_targets(targets, outcome.targets)
        yield f"{targets}: {len(outcome.targets)} load targets"
    for path, series, name in ((prices, outcome.price, "price"), (carbon, outcome.intensity, "intensity")):
        if path is not None:
            none = np.empty(0)
            time_s, value = (none, none) if series is None else (series.time_s, series.value)
            write_steps(path, time_s, value, name)
            yield f"{path}: {len(time_s)} rows"
