"""Design incentives: the rate that leaves centre and users best off under a stated acceptance curve."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from wattqueue.verbs import Printed, out_field, verb_of
from wattqueue_grid.incentives.options import DesignOptions


@dataclass(frozen=True)
class DesignVerb(Printed, DesignOptions):
    """Options of the verb."""

    _: KW_ONLY
    out: Path | None = out_field("Directory for design.csv and design.html.")


@verb_of(DesignVerb)
def run(options: DesignVerb) -> None:
    """Design incentives: the rate that leaves centre and users best off under a stated acceptance curve."""
    from wattqueue.formats.atomic_folder import write_files
    from wattqueue.formats.load_target import read_load_targets
    from wattqueue.report.document import UNBROKEN
    from wattqueue.terminal import running
    from wattqueue_grid.incentives.acceptance import read_acceptance
    from wattqueue_grid.incentives.design import DesignInputs, design
    from wattqueue_grid.incentives.design_report import design_csv, design_rows, document
    from wattqueue_grid.incentives.rewards import read_reward_model
    from wattqueue_grid.incentives.verdict import verdict
    from wattqueue_grid.money import decimal_of
    from wattqueue_grid.settlement.contract import read_contract
    from wattqueue_grid.settlement.events import called_events

    o = options
    multiples = [decimal_of(text, "--rates") for text in o.rates.split(",")]
    rewards, curve, terms = read_reward_model(o.model), read_acceptance(o.acceptance), read_contract(o.contract)
    tariff = o.tariff()
    site, epoch = o.site()
    found = read_load_targets(o.targets, site.machine, site.cap)
    events = called_events(found, terms, epoch, o.targets)
    inputs = DesignInputs(site, found, events, rewards, curve, terms, tariff, o.interval, o.draws, o.seed)
    with running("simulating", "runs", quiet=o.quiet) as tell:
        rows = design(inputs, multiples, tell)
    shown = document(rows, inputs)
    if o.out is not None:
        write_files(o.out, {"design.csv": design_csv(rows, inputs), "design.html": shown.html()})
    said = verdict(rows, terms.currency).sentence
    o.show(lambda: {"verdict": said, "rates": design_rows(rows, inputs)}, lambda: shown.lines(UNBROKEN))
    if site.jobs.origin == "generated":
        o.say(["The workload is generated, not measured."])
    if o.out is not None:
        o.say([f"{o.out / 'design.html'} (with design.csv)"])
