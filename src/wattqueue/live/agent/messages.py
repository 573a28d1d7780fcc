"""What controller and agent send each other, as JSON: the limits that are wanted, and how a node is.

A ``Desired`` names the whole state that is wanted: a limit that it does not name gets back what it was. Messages carry
a number that only grows (the time at which they were issued, in nanoseconds), so that late, doubled and reordered ones
are recognised, and an end: a controller that falls silent loses its right to limit a node. Clocks of controller and
nodes must agree within a few seconds.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wattqueue.errors import InputError
from wattqueue.formats.bounded import Counted, Instant, Number, Serial, Setting, Watts
from wattqueue.formats.schema import first_finding

MOST_BYTES = 1 << 16
"""A longer message is refused unread."""
Name = Annotated[str, Field(min_length=1, max_length=128)]


class Message(BaseModel):
    """A message between controller and agent; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    version: Literal[1] = 1
    node: Name

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Read a message. Raises: InputError with the first thing that is wrong."""
        if len(text) > MOST_BYTES:
            raise InputError(f"a message of {len(text)} bytes")
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            what, hint = first_finding(error, lambda _: list(cls.model_fields))
            raise InputError(what, hint=hint) from error

    def text(self) -> bytes:
        """Return the message as JSON."""
        return self.model_dump_json().encode()


class Desired(Message):
    """What the limits of a node are to be, from the controller. Watts or hertz, by the limit's unit."""

    number: Annotated[Serial, Field(gt=0)]
    expires_s: Instant
    """Time since the epoch from which on nothing of it holds."""
    limits: dict[Name, Number]


class AgentState(Message):
    """How a node is, from its agent."""

    instance: Name
    """Names this run of the agent: two agents that speak for one node have two."""
    number: Serial
    """Of the newest ``Desired`` that was carried out, as far as its limits were not refused; 0 once it has expired."""
    time_s: Instant
    """Clock of the node, seconds since the epoch."""
    metered: tuple[Name, ...]
    """What can be read on this node: packages and GPUs."""
    power_w: dict[Name, Watts]
    """Watts of each of them that has a reading, on average since the state before."""
    limits: dict[Name, Setting]
    """Limits in force, read back from the hardware."""
    low: dict[Name, Setting]
    high: dict[Name, Setting]
    """Bounds in which each limit may be set."""
    counts: dict[Name, Serial]
    """How often something was refused, corrected or failed since the agent started, by what it was."""
    problems: tuple[str, ...] = ()
    counters: dict[Name, Counted] = {}
    """Cycles, instructions and memory transactions of the node since the agent started; empty where none count."""
