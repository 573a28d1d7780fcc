"""Paper 5, section 5: load targets with the consent of users on a machine of 151 nodes.

The workload is generated. ``study.demand_response`` computes; this file has the options.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import verb_of
from wattqueue_studies.cli.study._run import ParallelStudy


@verb_of(ParallelStudy)
def run(
    output: ParallelStudy,
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Draws of the workloads.")] = 30,
    node_stop: Annotated[bool, typer.Option(help="Simulate node stop, whose control runs in Python.")] = True,
    announced: Annotated[
        bool, typer.Option(help="Compare the rules that know an announced target before it begins.")
    ] = True,
    depth: Annotated[bool, typer.Option(help="Vary how far DVFS goes: clock and watts of slowed jobs.")] = True,
    prices: Annotated[
        Path | None, typer.Option(help="A year on these hourly prices (CSV, EUR/MWh) instead of the experiments.")
    ] = None,
) -> None:
    """Save power with the consent of users, decided at submission or at the start, by DVFS or node stop (paper 5).

    30 seeds are about 22,000 simulations: five windows of saving, three limits, five shares, two experiments, clocks of
    slowed jobs, and more.
    With prices, a year of load targets at their dearest hours: what is paid, and what users lose.
    """
    if prices is not None:
        from wattqueue_studies.demand_response.price_year_study import PriceYearStudy

        output.perform(PriceYearStudy(prices))
        return
    from wattqueue_studies.demand_response.study import DemandResponseStudy

    if seeds > 1:
        import_module("scipy.stats")  # needed for the intervals: fail before the work if it is missing
    study = DemandResponseStudy(seeds, node_stop=node_stop, threads=output.threads, announced=announced, depth=depth)
    output.perform(study)
