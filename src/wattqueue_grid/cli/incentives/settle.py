"""Settle the rewards of an event into the ledger: each consenting job against its counterfactual."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    schedule: Annotated[Path, typer.Argument(help="Directory of a run with the event, or a live recording.")],
    *,
    targets: Annotated[Path, typer.Option(help="CSV of the load targets that are settled together.")],
    model: Annotated[Path, typer.Option(help="TOML of the reward model.")],
    ledger: Annotated[str, typer.Option(help="SQLite file, postgresql://USER@HOST/NAME or mariadb://USER@HOST/NAME.")],
    jobs: Annotated[str | None, typer.Option(help="Workload whose column allowed states consent.")] = None,
    consent: Annotated[Path | None, typer.Option(help="TOML of consent defaults, for jobs that state none.")] = None,
    withdrawn: Annotated[Path | None, typer.Option(help="CSV of withdrawals of consent: time_s,user,job_id.")] = None,
    counterfactual: Annotated[
        Path | None, typer.Option(help="Directory of a run without the event. [simulated from the record's jobs]")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="Policy of the simulated counterfactual. [the record's]")] = None,
    cap: Annotated[str, typer.Option(help="Cap of the simulated counterfactual.")] = "none",
    start: Annotated[str | None, typer.Option(help="Date of the clock's 0, for the ledger. [the record's]")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the settlement. [ids of the targets]")] = None,
) -> None:
    """Settle the rewards of an event into the ledger: each consenting job against its counterfactual."""
    from wattqueue.errors import InputError
    from wattqueue.formats.cap import parse_cap
    from wattqueue.formats.consent import read_consent_defaults, with_defaults
    from wattqueue.formats.epoch import parse_date
    from wattqueue.formats.load_target import read_load_targets
    from wattqueue.model.comparability import WorkDone, gate
    from wattqueue.policy.policy import load_policy
    from wattqueue.report.words import count
    from wattqueue.runs.replay import read_source, workload_of
    from wattqueue.terminal import say_never_ran
    from wattqueue_grid.incentives.ledger import IncentiveLedger
    from wattqueue_grid.incentives.participation import consenting, read_withdrawals, sentences
    from wattqueue_grid.incentives.rewards import read_reward_model
    from wattqueue_grid.incentives.settle import (
        ScheduledJobs,
        consent_in_order,
        entries_of,
        event_of,
        in_order_of,
        withdrawals,
        without_targets,
    )

    source = read_source(schedule)
    found, rewards = read_load_targets(targets), read_reward_model(model)
    table = source.recorded.jobs
    if jobs is not None:
        table = consent_in_order(table, workload_of(source, jobs), jobs)
    if consent is not None:
        table = with_defaults(table, read_consent_defaults(consent))
    if not consenting(table).any():
        raise InputError(
            "no job consents", where=schedule, hint="give --jobs with a column allowed, or --consent with defaults"
        )
    if counterfactual is not None:
        other = read_source(counterfactual).recorded
        plain = ScheduledJobs(other.jobs, other.schedule)
    else:
        machine = source.recorded.machine
        named = policy or source.facts.get("task", {}).get("policy")
        if named is None or named == "live":
            raise InputError("the record names no policy", where="--policy", hint="name the one that decides live")
        plain = without_targets(table, machine, load_policy(named), parse_cap(cap, machine))
    without = in_order_of(table, plain, str(counterfactual or schedule))
    works = [WorkDone.of(table, each) for each in (without, source.recorded.schedule)]
    through = gate(works[0], works[1], ("without the event", "with the event"))
    if schedule.is_dir() and not through.open:
        raise InputError(through.why, where=schedule, hint="rewards follow from two runs of the same jobs")
    say_never_ran([("", works[1])])  # users of a live machine cancel jobs, and a recording ends while some wait
    late = None if withdrawn is None else withdrawals(table, read_withdrawals(withdrawn), str(withdrawn))
    epoch = parse_date(start, "--start") if start is not None else float(source.facts.get("epoch_s", 0.0))
    entries = entries_of(ScheduledJobs(table, source.recorded.schedule), without, found, rewards, late)
    event = event_of(found, rewards, epoch, name)
    book = IncentiveLedger.open(ledger)
    written = book.settle(event, entries)
    total = sum(entry.reward for entry in entries)
    users = len({entry.user_name for entry in entries})
    _report(event.event_id, f"{count(len(entries), 'job')} of {count(users, 'user')}", total, event.currency, written)
    for line in sentences(table, rewards):
        typer.echo(line)


def _report(name: str, size: str, total: int, currency: str, written: bool) -> None:
    """Print what was settled."""
    from wattqueue_grid.incentives.indexes import BASIS
    from wattqueue_grid.money import words

    typer.echo(f"{name}: {size}, {words(total, currency)} in rewards; {BASIS}.")
    typer.echo("Settled." if written else "Was settled already, with the same entries; nothing was changed.")
