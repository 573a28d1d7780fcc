"""Offers as text and CSV: what can be promised tomorrow, and what it costs users."""

from __future__ import annotations

from collections.abc import Sequence

from wattqueue.report import words
from wattqueue.report.document import Document, Table, csv_text
from wattqueue_grid.incentives.offer import Offer, OfferTerms, best_offers
from wattqueue_grid.incentives.offer_verdict import Earned, sentence
from wattqueue_grid.money import plain
from wattqueue_grid.money import words as money

HEADS: tuple[str, ...] = (
    "From",
    "For",
    "Limit",
    "Promise",
    "Half of the days",
    "Days",
    "Added wait node-h",
    "Added run node-h",
    "Rewards",
    "Per kW",
)
EARNED = ("Paid per kW", "Net per kW")
_CSV = (
    *("begin_s", "length_s", "limit_w", "promise_w", "median_w", "days", "added_wait_node_s", "added_run_node_s"),
    *("reward", "reward_per_kw", "paid_per_kw", "net_per_kw", "currency"),
)


def document(found: Sequence[Offer], terms: OfferTerms, currency: str, earned: Earned | None = None) -> Document:
    """Return the best offer of each begin and length, and what the promise means; first whether one pays."""
    best = best_offers(found)
    heads, rows = HEADS, [_cells(offer, currency) for offer in best]
    if earned is not None:
        heads = (*HEADS, *EARNED)
        rows = [_no_event(currency), *((*row, *_earned(offer, earned)) for row, offer in zip(rows, best, strict=True))]
    none = [offer for offer in found if offer.promise_w is None and not offer.why]
    left = [offer for offer in found if offer.why]
    share, sure = words.percent(terms.reliability), words.percent(terms.confidence)
    half = "Half of the days: what every second day would have delivered throughout."
    said: list[Table | str] = [
        *([] if earned is None else [sentence(best, earned)]),
        Table(heads, rows),
        f"A promise holds on at least {share} of days, with a confidence of {sure}; past days stand for it.",
        f"{half} Waits, run times and rewards are means of one event; the limit is that with the greatest promise.",
    ]
    if none:
        said.append(f"{none[0].days} days are too few for this reliability and confidence: no promise.")
    if earned is None and currency and (paid := sorted(_per_kw(found))):
        low, high = (money(amount, currency) for amount in (paid[0], paid[-1]))
        span = low if low == high else f"{low} to {high}"
        said.append(
            f"An event must bring at least {span} for each kW promised to cover its rewards; what users lose, and what "
            "the grid pays, is weighed by incentives design (--contract compares it with a contract)."
        )
    for offer in left:
        limit = f"{clock(offer.candidate.begin_s)}, limit {words.watts(offer.candidate.limit_w)}"
        said.append(f"No promise from {limit}: {offer.why}.")
    return Document(title="Offers", blocks=said)


def offer_rows(found: Sequence[Offer], currency: str, earned: Earned | None = None) -> list[dict[str, str]]:
    """Return the rows of the CSV by the names of its columns."""
    return [dict(zip(_CSV, _exact(offer, currency, earned), strict=True)) for offer in found]


def offers_csv(found: Sequence[Offer], terms: OfferTerms, currency: str, earned: Earned | None = None) -> str:
    """Return every candidate, not only the best ones."""
    lead = f"wattqueue offers reliability={terms.reliability} confidence={terms.confidence} label=simulated"
    return csv_text(_CSV, (_exact(offer, currency, earned) for offer in found), lead)


def _exact(o: Offer, currency: str, earned: Earned | None) -> list[str]:
    """Return the cells of an offer in CSV."""
    c = o.candidate
    promise = "" if o.promise_w is None else f"{o.promise_w:.0f}"
    figures = (f"{c.begin_s:.0f}", f"{c.length_s:.0f}", f"{c.limit_w:.0f}", promise)
    if o.why:
        return [*figures, "", str(o.days), *[""] * 6, currency]
    waits = (f"{o.added_wait_node_s:.0f}", f"{o.added_run_node_s:.0f}")
    per_kw = "" if o.reward_per_kw is None else plain(o.reward_per_kw)
    net = None if earned is None else earned.net_per_kw(o)
    paid = ("", "") if earned is None or net is None else (plain(earned.per_kw(o)), plain(net))
    return [*figures, f"{o.median_w:.0f}", str(o.days), *waits, plain(o.reward), per_kw, *paid, currency]


def _per_kw(found: Sequence[Offer]) -> list[int]:
    """Return the rewards for each kW of the best offers, where there is a promise."""
    return [offer.reward_per_kw for offer in best_offers(found) if offer.reward_per_kw is not None]


def clock(seconds: float) -> str:
    """Return a time of day: ``14:00``."""
    return f"{int(seconds // 3_600):02d}:{int(seconds % 3_600 // 60):02d}"


def _no_event(currency: str) -> tuple[str, ...]:
    """Return the row with which all offers are compared."""
    return ("no event", *["–"] * (len(HEADS) - 3), *[money(0, currency)] * 4)


def _earned(offer: Offer, earned: Earned) -> tuple[str, ...]:
    """Return what an offer earns at most, and what is left of it."""
    net = earned.net_per_kw(offer)
    return (money(earned.per_kw(offer), earned.currency), "–" if net is None else money(net, earned.currency))


def _cells(offer: Offer, currency: str) -> tuple[str, ...]:
    c = offer.candidate
    if offer.why:
        return (clock(c.begin_s), words.span(c.length_s), words.watts(c.limit_w), "none", "–", str(offer.days), *"––––")
    return (
        clock(c.begin_s), words.span(c.length_s), words.watts(c.limit_w),
        "none" if offer.promise_w is None else words.watts(offer.promise_w), words.watts(offer.median_w),
        str(offer.days), words.figures(offer.added_wait_node_s / 3_600), words.figures(offer.added_run_node_s / 3_600),
        money(offer.reward, currency) if currency else "–",
        money(offer.reward_per_kw, currency) if currency and offer.reward_per_kw is not None else "–",
    )  # fmt: skip
