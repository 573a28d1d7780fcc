"""From files to statements: what ``wattqueue settle`` and ``wattqueue_grid.settle`` both do.

Load targets become events with the terms of the contract, interval data of a meter become days, the contract's
baseline is computed, and every figure of the statements follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError
from wattqueue.formats.load_target import read_load_targets
from wattqueue.formats.rundir.folder import POWER, RunRecord, read_run
from wattqueue.formats.source import sha256_of
from wattqueue.formats.tariff import Tariff
from wattqueue.model.comparability import WorkDone, gate
from wattqueue.report.document import Document
from wattqueue_grid.meter import MeterData, check_interval, of_power, read_meter
from wattqueue_grid.money import plain
from wattqueue_grid.settlement.contract import Contract, read_contract
from wattqueue_grid.settlement.events import called_events, chosen
from wattqueue_grid.settlement.load_history import LoadHistory
from wattqueue_grid.settlement.page import document
from wattqueue_grid.settlement.statement import EVENT_HEADS, EventStatement, csv_files, event_rows, settle_event

RUN_INTERVAL_S = 900
"""Interval of settlement where the meter is a run and none is stated."""


@dataclass(frozen=True, slots=True)
class SettlementInputs:
    """What is settled. ``meter`` and ``counterfactual`` are a file of interval data, or a run or its folder."""

    targets: Path
    contract: Path
    meter: Path | RunRecord
    interval_s: int | None = None
    """Seconds of an interval; None takes the meter's, or ``RUN_INTERVAL_S`` for a run."""
    counterfactual: Path | RunRecord | None = None
    prices: Tariff | None = None
    epoch_s: float | None = None
    """Unix time of the 0 of targets and runs, where these state none."""
    events: Sequence[str] = ()
    """Ids of the events to settle; empty: all."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """The statements of some events under one contract. The same inputs give the same texts, to the byte."""

    contract: Contract
    statements: tuple[EventStatement, ...]
    facts: dict[str, str] = field(default_factory=dict)
    """Sources and their hashes."""

    @property
    def payment(self) -> Decimal:
        """Return what all events pay, exact, in units of the contract's currency."""
        return Decimal(plain(sum(each.payment for each in self.statements)))

    @property
    def penalty(self) -> Decimal:
        """Return what missing delivery costs, exact, in units of the contract's currency."""
        return Decimal(plain(sum(each.penalty for each in self.statements)))

    @property
    def document(self) -> Document:
        """Return the statement as text and page."""
        return document(self.statements, self.contract, self.facts)

    def as_json(self) -> dict[str, Any]:
        """Return the totals of each event, amounts exact as text in units of the currency."""
        return {
            "contract": self.contract.name,
            "currency": self.contract.currency,
            "payment": str(self.payment),
            "penalty": str(self.penalty),
            "events": [dict(zip(EVENT_HEADS, row, strict=True)) for row in event_rows(self.statements, self.contract)],
        }

    def files(self) -> dict[str, str]:
        """Return intervals.csv, events.csv and statement.html by name."""
        files = csv_files(self.statements, self.contract, self.facts)
        return {**files, "statement.html": self.document.html()}


def perform_settlement(inputs: SettlementInputs) -> Settlement:
    """Return the statements of the events.

    Raises: InputError naming the file or event that cannot be settled, and why.
    """
    terms = read_contract(inputs.contract)
    events = called_events(read_load_targets(inputs.targets), terms, inputs.epoch_s, inputs.targets)
    wanted = chosen(events, list(inputs.events), "--event")
    found = _interval_data(inputs.meter, inputs.interval_s, inputs.epoch_s)
    other = inputs.counterfactual
    apart = _not_comparable(other, inputs.meter)
    beside = None if other is None or apart else _interval_data(other, found.interval_s, inputs.epoch_s)
    history = LoadHistory(found, terms.calendar)
    statements = tuple(
        settle_event(e, events, history, terms, counterfactual=beside, prices=inputs.prices) for e in wanted
    )
    facts = {"contract_sha256": terms.sha256, "targets_sha256": sha256_of(inputs.targets)}
    facts |= {"meter": found.source.replace(" ", "_")} | _hash("meter_sha256", inputs.meter)
    facts |= {} if inputs.prices is None else {"prices_sha256": inputs.prices.sha256}
    facts |= {} if other is None else _hash("counterfactual_sha256", other)
    facts |= {"counterfactual_not_comparable": apart.replace(" ", "_")} if apart else {}
    return Settlement(terms, statements, facts)


def _not_comparable(other: Path | RunRecord | None, meter: Path | RunRecord) -> str:
    """Return why the power of a counterfactual run says nothing beside that of the metered run; empty where it does.

    Only two runs can be checked: interval data of a file do not name jobs.
    """
    runs = [_run_of(source) for source in (other, meter)]
    works = [WorkDone.of(run.jobs, run.schedule) for run in runs if run is not None]
    return gate(works[0], works[1], ("counterfactual", "meter")).why if len(works) == 2 else ""


def _run_of(source: Path | RunRecord | None) -> RunRecord | None:
    """Return the run that a source is; None for a file of interval data, and for none."""
    if isinstance(source, Path):
        return read_run(source) if source.is_dir() else None
    return source


def _interval_data(source: Path | RunRecord, interval_s: int | None, epoch_s: float | None) -> MeterData:
    """Return interval data of a file, or the power of a run, labelled simulated.

    Raises: InputError for a run whose date is not known.
    """
    if interval_s is not None:
        check_interval(interval_s, "--interval")
    if isinstance(source, Path) and not source.is_dir():
        return read_meter(source, interval_s)
    run, name = (read_run(source), source.name) if isinstance(source, Path) else (source, "run")
    zero = run.facts.get("epoch_s") if epoch_s is None else epoch_s
    if zero is None:
        raise InputError("the date of the run is not known", where=source if isinstance(source, Path) else name,
                         hint="give --start 2023-01-01T00:00Z")  # fmt: skip
    return of_power(run.power, float(zero), interval_s or RUN_INTERVAL_S, name)


def _hash(key: str, source: Path | RunRecord) -> dict[str, str]:
    """Return the hash of a file, or of the power of a run's directory; nothing for a run in memory."""
    if not isinstance(source, Path):
        return {}
    return {key: sha256_of(source / POWER if source.is_dir() else source)}
