"""Run WattQueue as the scheduler of a Flux instance: where its module lies, and a trial on emulated nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import Printed, verb_of

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _root() -> None:
    """Run WattQueue as the scheduler of a Flux instance."""


def module_words() -> tuple[str, str]:
    """Return the file of the module, and of an editable installation its site-packages folder."""
    import sysconfig

    import wattqueue_flux

    file = Path(wattqueue_flux.__file__).parent / "sched_wattqueue.py"
    return str(file), "" if file.parents[1].name == "site-packages" else sysconfig.get_paths()["purelib"]


@app.command()
@verb_of(Printed)
def module(printed: Printed) -> None:
    """Print what ``flux module load`` takes: the file of the module, and of an editable installation its folder."""
    file, site = module_words()
    printed.show(lambda: {"module": file, "site": site}, lambda: [f"{file} site={site}" if site else file])


@app.command("try")
@verb_of(Printed)
def trial(
    printed: Printed,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the trial's files.")] = Path("flux-trial"),
    nodes: Annotated[int, typer.Option(help="Emulated nodes.")] = 1000,
    jobs: Annotated[int, typer.Option(min=2, max=20_000, help="Jobs of one node and five seconds.")] = 200,
    at_once: Annotated[int, typer.Option(min=1, max=20_000, help="Jobs that the cap has room for.")] = 50,
) -> None:
    """Write a trial: a script for ``flux start`` with emulated nodes, jobs and a cap that holds."""
    from wattqueue_flux.emulated import write_trial

    file, site = module_words()
    script = write_trial(out, f"{file} site={site}" if site else file, nodes=nodes, jobs=jobs, at_once=at_once)
    command = f"flux start -Sbroker.module-nopanic=1 bash {script}"
    printed.show(lambda: {"script": str(script), "command": command}, lambda: [command])


@app.command("energy-line")
@verb_of(Printed)
def energy_line(
    printed: Printed, config: Annotated[Path, typer.Option("--config", "-c", help="The controller's TOML file.")]
) -> None:
    """Print the Lua by which Flux's job shell puts a job's energy at the end of its output."""
    from wattqueue.live.config import energy_folder, load_config
    from wattqueue.live.units import flux_energy_line

    text = flux_energy_line(energy_folder(load_config(config), config)[0])
    printed.show(lambda: {"lua": text}, text.splitlines)
