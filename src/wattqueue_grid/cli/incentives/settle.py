"""Settle the rewards of an event into the ledger: each consenting job against its counterfactual."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wattqueue.verbs import Printed, verb_of

if TYPE_CHECKING:
    from wattqueue.model.jobs import Jobs
    from wattqueue.runs.replay import Source
    from wattqueue_grid.incentives.ledger import RewardEntry, SettledEvent
    from wattqueue_grid.incentives.settle import ScheduledJobs


@verb_of(Printed)
def run(
    printed: Printed,
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
    from wattqueue.formats.epoch import parse_date
    from wattqueue.formats.load_target import read_load_targets
    from wattqueue.formats.rundir.folder import truth_of
    from wattqueue.model.comparability import WorkDone, gate
    from wattqueue.runs.replay import read_source
    from wattqueue.terminal import say_never_ran
    from wattqueue_grid.incentives.ledger import IncentiveLedger
    from wattqueue_grid.incentives.participation import consenting, read_withdrawals, sentences
    from wattqueue_grid.incentives.rewards import read_reward_model
    from wattqueue_grid.incentives.settle import (
        ScheduledJobs,
        entries_of,
        event_of,
        in_order_of,
        withdrawals,
    )

    source = read_source(schedule)
    found, rewards = read_load_targets(targets), read_reward_model(model)
    table = _with_consent(source, jobs, consent)
    if not consenting(table).any():
        raise InputError(
            "no job consents", where=schedule, hint="give --jobs with a column allowed, or --consent with defaults"
        )
    truth = truth_of(source.facts)
    plain_truth = truth
    if counterfactual is not None:
        other = read_source(counterfactual)
        plain, plain_truth = ScheduledJobs(other.recorded.jobs, other.recorded.schedule), truth_of(other.facts)
    else:
        plain = _simulated(source, table, policy, cap)
    without = in_order_of(table, plain, str(counterfactual or schedule))
    works = [WorkDone.of(table, without, plain_truth), WorkDone.of(table, source.recorded.schedule, truth)]
    through = gate(works[0], works[1], ("without the event", "with the event"))
    if schedule.is_dir() and not through.open:
        raise InputError(through.why, where=schedule, hint="rewards follow from two runs of the same jobs")
    say_never_ran([("", works[1])])  # users of a live machine cancel jobs, and a recording ends while some wait
    late = None if withdrawn is None else withdrawals(table, read_withdrawals(withdrawn), str(withdrawn))
    epoch = parse_date(start, "--start") if start is not None else float(source.facts.get("epoch_s", 0.0))
    entries = entries_of(ScheduledJobs(table, source.recorded.schedule), without, found, rewards, late)
    event = event_of(found, rewards, epoch, name)
    new = IncentiveLedger.open(ledger).settle(event, entries)
    _show(printed, event, entries, new, sentences(table, rewards))


def _show(
    printed: Printed, event: SettledEvent, entries: Sequence[RewardEntry], new: bool, remarks: Sequence[str]
) -> None:
    """Print what was settled; ``new`` says whether the ledger did not have it before."""
    from wattqueue.report.words import count
    from wattqueue_grid.incentives.indexes import BASIS
    from wattqueue_grid.money import plain, words

    total, users = sum(entry.reward for entry in entries), len({entry.user_name for entry in entries})
    size = f"{count(len(entries), 'job')} of {count(users, 'user')}"
    found = {"event": event.event_id, "jobs": len(entries), "users": users, "currency": event.currency}
    printed.show(
        lambda: {**found, "reward": plain(total), "new": new},
        lambda: [
            f"{event.event_id}: {size}, {words(total, event.currency)} in rewards; {BASIS}.",
            "Settled." if new else "Was settled already, with the same entries; nothing was changed.",
            *remarks,
        ],
    )


def _with_consent(source: Source, jobs: str | None, consent: Path | None) -> Jobs:
    """Return the jobs of a record with the consent that a workload states, and defaults for the others."""
    from wattqueue.formats.consent import read_consent_defaults, with_defaults
    from wattqueue.runs.replay import workload_of
    from wattqueue_grid.incentives.settle import consent_in_order

    table = source.recorded.jobs
    if jobs is not None:
        table = consent_in_order(table, workload_of(source, jobs), jobs)
    return table if consent is None else with_defaults(table, read_consent_defaults(consent))


def _simulated(source: Source, jobs: Jobs, policy: str | None, cap: str) -> ScheduledJobs:
    """Return the schedule of the jobs without the event.

    Raises: InputError where the record names no policy, or its truth is physics, which a record does not hold.
    """
    from wattqueue.errors import InputError
    from wattqueue.formats.cap import parse_cap
    from wattqueue.policy.policy import load_policy
    from wattqueue_grid.incentives.settle import without_targets

    machine, named = source.recorded.machine, policy or source.facts.get("task", {}).get("policy")
    if named is None or named == "live":
        raise InputError("the record names no policy", where="--policy", hint="name the one that decides live")
    if "physics" in source.facts:
        raise InputError(
            "its jobs drew what physics states", where=source.recorded.where,
            hint="simulate them with the same --physics without targets, and name that run by --counterfactual",
        )  # fmt: skip
    return without_targets(jobs, machine, load_policy(named, machine=machine), parse_cap(cap, machine))
