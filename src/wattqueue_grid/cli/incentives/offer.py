"""Calculate offers to the grid: what can be promised tomorrow, with which confidence, at which cost to users."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from wattqueue.formats.times import duration_s
from wattqueue.model.plain_numbers import is_whole
from wattqueue.verbs import Printed, out_field, verb_of
from wattqueue_grid.incentives.options import OfferOptions


@dataclass(frozen=True)
class OfferVerb(Printed, OfferOptions):
    """Options of the verb."""

    _: KW_ONLY
    out: Path | None = out_field("CSV of all candidates.")


@verb_of(OfferVerb)
def run(options: OfferVerb) -> None:
    """Calculate offers to the grid: what can be promised tomorrow, with which confidence, at which cost to users."""
    from wattqueue.formats.atomic_folder import write_text
    from wattqueue.formats.cap import parse_cap
    from wattqueue.report.document import UNBROKEN
    from wattqueue.terminal import running
    from wattqueue_grid.incentives.offer import Candidate, OfferTerms, offers
    from wattqueue_grid.incentives.offer_report import document, offer_rows, offers_csv
    from wattqueue_grid.incentives.offer_verdict import Earned
    from wattqueue_grid.incentives.participation import sentences
    from wattqueue_grid.incentives.rewards import read_reward_model
    from wattqueue_grid.settlement.calendar import SiteCalendar, zone_of

    o = options
    calendar = SiteCalendar(zone_of(o.time_zone, "--time-zone"))
    lead, notice = duration_s(o.lead, "--lead") or 0.0, duration_s(o.notice, "--notice") or 0.0
    terms = OfferTerms(o.reliability, o.confidence, lead, notice)
    rewards = None if o.model is None else read_reward_model(o.model)
    earned = None if o.contract is None else Earned.read(o.contract, rewards)
    site, epoch = o.site(o.consent)
    watts = [float(parse_cap(text, site.machine).cap_w[0]) for text in o.limit.split(",")]
    candidates = [
        Candidate(_time_of_day(b), duration_s(d, "--for") or 0.0, w)
        for b in o.begin.split(",")
        for d in o.length.split(",")
        for w in watts
    ]
    midnight = 0.0 if epoch is None else -float(calendar.local(round(epoch))[1])
    with running("simulating", "runs", quiet=o.quiet) as tell:
        found = offers(site, candidates, terms, rewards, midnight_s=midnight, tell=tell)
    currency = "" if rewards is None else rewards.currency
    if o.out is not None:
        write_text(o.out, offers_csv(found, terms, currency, earned))
    said = [*document(found, terms, currency, earned).lines(UNBROKEN), *sentences(site.jobs, rewards)]
    o.show(lambda: {"offers": offer_rows(found, currency, earned)}, lambda: said)
    if site.jobs.origin == "generated":
        o.say(["The workload is generated, not measured."])
    if o.out is not None:
        o.say([str(o.out)])


def _time_of_day(text: str) -> float:
    """Return the seconds after midnight of ``14:00``. Raises: InputError."""
    from wattqueue.errors import InputError

    hours, _, minutes = text.strip().partition(":")
    good = is_whole(hours) and is_whole(minutes) and int(hours) < 24 and int(minutes) < 60
    if not good:
        raise InputError(f"{text.strip()!r} is not a time of day", where="--from", hint="for example 08:00,18:30")
    return int(hours) * 3_600.0 + int(minutes) * 60.0
