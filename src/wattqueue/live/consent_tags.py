"""Parse what users of a cluster allow during a load target, in the comments of their jobs, strictly.

A user writes a *tag* into the comment of a job (``sbatch --comment``, or later ``scontrol update Comment=``):

``wattqueue:consent``
    The job may be slowed down or parked during a load target.
``wattqueue:consent,slowdown=1.5,until=2026-11-23T08:00,price=2.5``
    Within limits: run time at most 1.5 times that at full speed, an end by then, a price for an added hour. ``until``
    is a time of the controller's host, or has a zone (``Z``, ``+01:00``).
``wattqueue:consent,checkpoint=600``
    The job writes a checkpoint every 600 s of its work and goes on from the last one when it is started again: it is
    requeued where others are parked, and its nodes are free for others.
``wattqueue:no-consent``
    The job may not, whatever the default of its user is.

Other words of the comment stay the user's own. Why the comment: its user can set it at the submission and change it
while the job runs, squeue shows it to everybody, it holds the limits, and it needs nothing of the site. A QOS or a
feature of nodes holds no figures, and cannot be changed once the job runs.

A tag that is not exactly one of these, or a second one, is a *wrong* tag: the job does not consent, also where its user
consents by default. A job without a tag has the default of its user, else of its account, else of the site.

Comments are users' text. They are read from JSON alone (``slurm.observe``), and nothing but the parsed figures leaves
this module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from wattqueue.errors import InputError
from wattqueue.live.cluster import Details
from wattqueue.model.plain_numbers import CHECKPOINT, PRICE, SLOWDOWN, TIME_S

WORD = "wattqueue:"
"""Beginning of a tag; what the controller itself writes into comments (advise mode) has a blank behind it."""
CONSENT, NO_CONSENT = "wattqueue:consent", "wattqueue:no-consent"
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_UNTIL = re.compile(r"[0-9]{4}(?:-[0-9]{2}){2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?:Z|[+-][0-9]{2}:[0-9]{2})?")
Source = Literal["job", "user", "account", "site", "wrong"]
"""What decides: the job's own tag, a default of its user, account or site, or a wrong tag."""


class StatedConsent(NamedTuple):
    """What one job allows; NaN where it states no limit."""

    allowed: bool
    source: Source
    slowdown: float = math.nan
    until_s: float = math.nan
    """Latest end, seconds since the epoch."""
    price: float = math.nan
    """For an added hour, in the currency of the tariff."""
    checkpoint_s: float = math.nan
    """Seconds of work between two checkpoints."""


@dataclass(frozen=True)
class SiteDefaults:
    """What holds for jobs without a tag: a user's own entry goes before that of the account."""

    users: Mapping[str, bool] = field(default_factory=dict)
    accounts: Mapping[str, bool] = field(default_factory=dict)
    others: bool = False

    def of(self, user: str, account: str) -> StatedConsent:
        """Return the default for a job of this user and account."""
        if user in self.users:
            return StatedConsent(self.users[user], "user")
        if account in self.accounts:
            return StatedConsent(self.accounts[account], "account")
        return StatedConsent(self.others, "site")

    def stated(self, details: Details) -> StatedConsent:
        """Return what a job allows: what its comment states, else the default."""
        if details.parts > 1:  # components stop and go on together, and Slurm alone schedules them
            return StatedConsent(allowed=False, source="site")
        try:
            own = parse_tag(details.comment)
        except InputError:
            return StatedConsent(allowed=False, source="wrong")
        return self.of(details.user, details.account) if own is None else own


def parse_tag(comment: str) -> StatedConsent | None:
    """Return what a comment states; None for one without a tag.

    Raises: InputError for a wrong tag, or more than one.
    """
    tags = [word for word in comment.split() if word.startswith(WORD) and word != WORD]
    if not tags:
        return None
    if len(tags) > 1:
        raise InputError("more than one tag", where="comment", hint="state one")
    kind, *limits = tags[0].split(",")
    if kind == NO_CONSENT and not limits:
        return StatedConsent(allowed=False, source="job")
    if kind != CONSENT:
        raise InputError("no known tag", where="comment", hint=f"write {CONSENT} or {NO_CONSENT}")
    found: dict[str, float] = {}
    for limit in limits:
        name, _, text = limit.partition("=")
        if name in found or name not in _LIMITS:
            raise InputError(
                f"limit {name[:20]!r} is unknown or doubled", where="comment", hint=f"{', '.join(_LIMITS)}"
            )
        found[name] = _LIMITS[name](text)
    return StatedConsent(True, "job", *(found.get(name, math.nan) for name in _LIMITS))


def _slowdown(text: str) -> float:
    return _number(text, "slowdown", SLOWDOWN.low, SLOWDOWN.high)


def _price(text: str) -> float:
    return _number(text, "price", PRICE.low, PRICE.high)


def _checkpoint(text: str) -> float:
    return _number(text, "checkpoint", CHECKPOINT.low, CHECKPOINT.high)


def _until(text: str) -> float:
    """Return an instant in seconds since the epoch."""
    try:
        if not _UNTIL.fullmatch(text):
            raise ValueError(text)
        at_s = datetime.fromisoformat(text).timestamp()
        if not TIME_S.low <= at_s <= TIME_S.high:
            raise ValueError(text)
    except (ValueError, OverflowError, OSError) as error:
        raise InputError("until is no time", where="comment", hint="until=2026-11-23T08:00") from error
    return at_s


def _number(text: str, name: str, low: float, high: float) -> float:
    """Return a plain decimal number within its range."""
    if not _NUMBER.fullmatch(text) or not low <= float(text) <= high:
        raise InputError(f"{name} is no number from {low:g} to {high:g}", where="comment", hint=f"{name}=1.5")
    return float(text)


_LIMITS = {"slowdown": _slowdown, "until": _until, "price": _price, "checkpoint": _checkpoint}
"""What may follow the consent, in the order of ``StatedConsent``."""
