"""Design incentives: the rate that leaves centre and users best off under a stated acceptance curve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    workload: Annotated[str, typer.Argument(help="A trace or job table, or marconi:days=7,load=0.9.")],
    *,
    targets: Annotated[Path, typer.Option(help="CSV of the load targets.")],
    model: Annotated[Path, typer.Option(help="TOML of the reward model.")],
    acceptance: Annotated[Path, typer.Option(help="TOML of the acceptance curve.")],
    contract: Annotated[Path, typer.Option(help="TOML of the contract: commitment, payment, penalty, tariff.")],
    machine: Annotated[str | None, typer.Option(help="A machine of the catalogue, or a TOML file.")] = None,
    nodes: Annotated[int | None, typer.Option(help="A plain machine of so many nodes; default: the trace's.")] = None,
    node_watts: Annotated[str | None, typer.Option(help="Watts of a plain node, IDLE:MAX.")] = None,
    policy: Annotated[str, typer.Option(help="Policy that answers load targets.")] = "dr-running",
    cap: Annotated[str | None, typer.Option(help="400kW, 70%, none, or a CSV of time_s,cap_w.")] = None,
    rates: Annotated[str, typer.Option(help="Multiples of the model's rates, with commas.")] = "0,0.5,1,2,4",
    prices: Annotated[Path | None, typer.Option(help="CSV of time and price, where the contract uses one.")] = None,
    price_unit: Annotated[str, typer.Option(help="Unit of the prices.")] = "EUR/MWh",
    repair: Annotated[bool, typer.Option("--repair", help="Correct dates with a wrong UTC offset.")] = False,
    start: Annotated[str | None, typer.Option(help="Date of the clock's 0.")] = None,
    interval: Annotated[int, typer.Option(help="Seconds of an interval of settlement.")] = 900,
    draws: Annotated[int, typer.Option(min=1, max=1000, help="Draws of the users who consent.")] = 5,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the draws, and of generated workloads.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Directory for design.csv and design.html.")] = None,
) -> None:
    """Design incentives: the rate that leaves centre and users best off under a stated acceptance curve."""
    from wattqueue.formats.load_target import read_load_targets
    from wattqueue.formats.pages import write_files
    from wattqueue.report.document import UNBROKEN
    from wattqueue.runs.task import Task
    from wattqueue.whatif.bill import parse_source, read_tariff
    from wattqueue_grid.cli.incentives._site import site_of
    from wattqueue_grid.incentives.acceptance import read_acceptance
    from wattqueue_grid.incentives.design import DesignInputs, design
    from wattqueue_grid.incentives.design_report import design_csv, document
    from wattqueue_grid.incentives.rewards import read_reward_model
    from wattqueue_grid.money import decimal_of
    from wattqueue_grid.settlement.contract import read_contract
    from wattqueue_grid.settlement.events import called_events

    multiples = [decimal_of(text, "--rates") for text in rates.split(",")]
    rewards, curve, terms = read_reward_model(model), read_acceptance(acceptance), read_contract(contract)
    tariff = (
        None if prices is None else read_tariff(parse_source(prices, price_unit, "--price-unit"), 0.0, repair=repair)
    )
    site, epoch = site_of(Task(workload, machine, nodes, node_watts, policy, None, cap, seed=seed), start)
    found = read_load_targets(targets, site.machine, site.cap)
    events = called_events(found, terms, epoch, targets)
    inputs = DesignInputs(site, found, events, rewards, curve, terms, tariff, interval, draws, seed)
    rows = design(inputs, multiples)
    shown = document(rows, inputs)
    if out is not None:
        write_files(out, {"design.csv": design_csv(rows, inputs), "design.html": shown.html()})
    for line in shown.lines(UNBROKEN):
        typer.echo(line)
    if site.jobs.origin == "generated":
        typer.echo("The workload is generated, not measured.")
    if out is not None:
        typer.echo(f"{out / 'design.html'} (with design.csv)")
