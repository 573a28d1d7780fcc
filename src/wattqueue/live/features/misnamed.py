"""Apply users' records of misnamed jobs to their waiting jobs, as the section ``[applications.misnamed]`` asks.

The control ``app-check`` records false claims in the application database (paper 1, section 3.4), maybe for several
controllers. What follows for a user (``model.app_check.Ladder``) is read from there once a minute: jobs behind all
others, or names of applications that are ignored. Both concern jobs that wait; a job that runs is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wattqueue.errors import InputError
from wattqueue.live.extension import Extension, beside
from wattqueue.live.planner import RoundState
from wattqueue.model.app_check import Consequence, Ladder, behind, without_choice
from wattqueue.policy.interfaces import method_of, stated
from wattqueue.policy.registry import Policy, part_class
from wattqueue.store.applications import ApplicationDatabase

READ_S = 60.0
"""Time between two reads of the record."""
NAMED = 5
"""Users that a line of the status names."""


def _penalised() -> Any:
    return part_class("order", "penalised")()


@dataclass
class MisnamedRecord:
    """The consequences in force, and the order that applies them."""

    database: ApplicationDatabase
    ladder: Ladder
    order: Any = field(default_factory=_penalised)
    record: Mapping[str, Consequence] = field(default_factory=dict)
    read_s: float = float("-inf")
    """When the record was read last."""

    def into(self, policy: Policy) -> Policy:
        """Return the policy with an order that puts jobs of listed users behind all others.

        Raises: InputError for an order that ranks the queue at each pass, or is the site's own: priorities that change
        cannot be wrapped.
        """
        if method_of(policy.order, "rerank") is not None or stated(policy.order, "site_priorities", False):
            raise InputError(
                f"the order of policy {policy.name} is not fixed when a job is submitted",
                where="applications.misnamed",
                hint="leave the section out, or use a policy whose order is fixed",
            )
        self.order = type(self.order)(inner=policy.order, users=self.order.users)
        return replace(policy, order=self.order)

    def read(self, now_s: float) -> None:
        """Read the record again, if a minute has passed. Raises: SQLAlchemyError where the database fails."""
        if now_s - self.read_s < READ_S:
            return
        self.read_s = now_s
        self.record = self.database.consequences(self.ladder, now_s)
        self.order.users = behind(self.record)

    def ignores(self, user: str) -> bool:
        """Return whether names of applications that a user gives are ignored."""
        return user in without_choice(self.record)

    def lines(self) -> list[str]:
        """Return what the status says of users with a record."""
        texts = {
            Consequence.WARNING: "misnamed jobs",
            Consequence.LOWER_PRIORITY: "misnamed jobs, theirs rank behind all others",
            Consequence.NO_CHOICE: "misnamed jobs, names of applications that they give are ignored",
        }
        found = []
        for what, text in texts.items():
            users = sorted(user for user, of_user in self.record.items() if of_user == what)
            more = f" and {len(users) - NAMED} more" if len(users) > NAMED else ""
            found += [f"users {', '.join(users[:NAMED])}{more}: {text}"] if users else []
        return found


def misnamed_extension(record: MisnamedRecord) -> Extension:
    """Return the stages that read the record; the order of the policy and ``Planner.ignored`` apply it."""

    def read(now: RoundState) -> None:
        record.read(now.now_s)

    def depend(now: RoundState) -> None:
        now.depends = (*now.depends, record.order.users)

    return Extension({"observed": beside("the record of misnamed jobs", read), "classified": depend}, record.lines)
