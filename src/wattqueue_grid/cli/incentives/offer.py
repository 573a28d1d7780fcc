"""Calculate offers to the grid: what can be promised tomorrow, with which confidence, at which cost to users."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wattqueue.formats.duration import duration_s
from wattqueue.model.bounds import is_whole


def run(
    workload: Annotated[str, typer.Argument(help="A trace or job table whose days stand for tomorrow.")],
    *,
    begin: Annotated[
        str, typer.Option("--from", help="Times of day at which delivery may begin.")
    ] = "08:00,12:00,18:00",
    length: Annotated[str, typer.Option("--for", help="Lengths of delivery.")] = "1h,2h",
    limit: Annotated[str, typer.Option(help="Limits of the load target: 60%, 400kW; with commas.")] = "60%,80%",
    reliability: Annotated[float, typer.Option(min=0.01, max=0.999, help="Share of days that keep it.")] = 0.9,
    confidence: Annotated[float, typer.Option(min=0.01, max=0.999, help="Confidence in this share.")] = 0.9,
    lead: Annotated[str, typer.Option(help="How long before delivery the target begins.")] = "1h",
    notice: Annotated[str, typer.Option(help="How long before its begin the target is known.")] = "24h",
    machine: Annotated[str | None, typer.Option(help="A machine of the catalogue, or a TOML file.")] = None,
    nodes: Annotated[int | None, typer.Option(help="A plain machine of so many nodes; default: the trace's.")] = None,
    node_watts: Annotated[str | None, typer.Option(help="Watts of a plain node, IDLE:MAX.")] = None,
    policy: Annotated[str, typer.Option(help="Policy that answers load targets.")] = "dr-running",
    cap: Annotated[str | None, typer.Option(help="400kW, 70%, none, or a CSV of time_s,cap_w.")] = None,
    consent: Annotated[Path | None, typer.Option(help="TOML of consent defaults, for jobs that state none.")] = None,
    model: Annotated[Path | None, typer.Option(help="TOML of the reward model, for the cost of rewards.")] = None,
    start: Annotated[str | None, typer.Option(help="Date of the clock's 0, for local midnights.")] = None,
    time_zone: Annotated[str, typer.Option(help="Time zone of --from, where dates are known.")] = "UTC",
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of generated workloads.")] = 0,
    out: Annotated[Path | None, typer.Option(help="CSV of all candidates.")] = None,
) -> None:
    """Calculate offers to the grid: what can be promised tomorrow, with which confidence, at which cost to users."""
    from wattqueue.formats.cap import parse_cap
    from wattqueue.formats.pages import write_text
    from wattqueue.report.document import UNBROKEN
    from wattqueue.runs.task import Task
    from wattqueue_grid.cli.incentives._site import site_of
    from wattqueue_grid.incentives.offer import Candidate, OfferTerms, offers
    from wattqueue_grid.incentives.offer_report import document, offers_csv
    from wattqueue_grid.incentives.participation import sentences
    from wattqueue_grid.incentives.rewards import read_reward_model
    from wattqueue_grid.settlement.calendar import SiteCalendar, zone_of

    calendar = SiteCalendar(zone_of(time_zone, "--time-zone"))
    terms = OfferTerms(
        reliability, confidence, duration_s(lead, "--lead") or 0.0, duration_s(notice, "--notice") or 0.0
    )
    rewards = None if model is None else read_reward_model(model)
    stated = None if consent is None else str(consent)
    task = Task(workload, machine, nodes, node_watts, policy, None, cap, consent=stated, seed=seed)
    site, epoch = site_of(task, start)
    watts = [float(parse_cap(text, site.machine).cap_w[0]) for text in limit.split(",")]
    candidates = [
        Candidate(_time_of_day(b), duration_s(d, "--for") or 0.0, w)
        for b in begin.split(",")
        for d in length.split(",")
        for w in watts
    ]
    midnight = 0.0 if epoch is None else -float(calendar.local(round(epoch))[1])
    found = offers(site, candidates, terms, rewards, midnight_s=midnight)
    currency = "" if rewards is None else rewards.currency
    if out is not None:
        write_text(out, offers_csv(found, terms, currency))
    for line in [*document(found, terms, currency).lines(UNBROKEN), *sentences(site.jobs, rewards)]:
        typer.echo(line)
    if site.jobs.origin == "generated":
        typer.echo("The workload is generated, not measured.")
    if out is not None:
        typer.echo(str(out))


def _time_of_day(text: str) -> float:
    """Return the seconds after midnight of ``14:00``. Raises: InputError."""
    from wattqueue.errors import InputError

    hours, _, minutes = text.strip().partition(":")
    good = is_whole(hours) and is_whole(minutes) and int(hours) < 24 and int(minutes) < 60
    if not good:
        raise InputError(f"{text.strip()!r} is not a time of day", where="--from", hint="for example 08:00,18:30")
    return int(hours) * 3_600.0 + int(minutes) * 60.0
