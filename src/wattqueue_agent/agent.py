"""What an agent does about each message, and in each step. Messages come from anywhere; no limit leaves its range.

A message that cannot be trusted changes nothing and is counted. A limit in it that the hardware does not take, or that
the site does not allow, is refused alone; one outside the site's range is set to the nearer end of it. Limits are
lowered before others are raised, so that the node never draws more than the larger of both sums. Each value is read
back from the hardware, and again in each step: what another program changed is set again and counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wattqueue.errors import InputError, OutputError
from wattqueue.live.agents import AgentState, Desired
from wattqueue.live.files.lease import AHEAD_S
from wattqueue_agent.counters import PerfCounters
from wattqueue_agent.limits import Bounds, Limit, LimitError
from wattqueue_agent.meter import PowerMeter
from wattqueue_agent.originals import HeldLimits, Originals

LONGEST_S = 3600.0
"""A message that holds for longer is refused: nobody could take it back from a node that is cut off."""
ROUNDING = 0.01
"""Share by which a limit that was read back may differ from what was set: hardware rounds."""


@dataclass
class Agent:
    """One node's agent without its connection.

    Attributes:
        node: Name of the node.
        instance: Name of this run of the agent.
        limits: What can be limited, by name.
        allowed: Returns the range that the site allows for a limit, None for none.
        originals: Values before anything was changed.
        counts: What was refused, corrected or failed.
        counters: What counts cycles and instructions; None where nothing does.
    """

    node: str
    instance: str
    limits: Mapping[str, Limit]
    allowed: Callable[[str], Bounds | None]
    originals: Originals
    counts: Counter[str] = field(default_factory=Counter)
    counters: PerfCounters | None = None
    _meter: PowerMeter = field(init=False)
    _number: int = 0
    _expires_s: float = math.inf
    _set: dict[str, float] = field(default_factory=dict)
    _problems: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._meter = PowerMeter(self.limits)
        self.originals.owner = self.instance

    def resume(self, now_s: float) -> None:
        """Go on with what an agent before this one was asked for, until its lease runs out; or restore what it found.

        A limit that this configuration does not allow any more is restored.
        """
        lease = self.originals.lease
        if not self.originals.values:
            return
        if now_s >= lease.expires_s:
            self.counts["restored at start"] += 1
            self.restore()
            return
        self.counts["resumed at start"] += 1
        self._number, self._expires_s = lease.number, lease.expires_s
        self._take(lease.limits)

    def receive(self, text: bytes, now_s: float) -> None:
        """Carry out a ``Desired``, or count why not. ``now_s``: seconds since the epoch."""
        try:
            desired = Desired.parse(text)
        except InputError as error:
            self._note("unreadable message", str(error))
            return
        refused = self._refused(desired, now_s)
        if refused:
            self._note(refused, f"message {desired.number}")
            return
        if desired.number == self._number:
            return  # delivered twice
        self._number, self._expires_s = desired.number, desired.expires_s
        self._problems.clear()
        self._take(desired.limits)

    def step(self, now_s: float, clock_s: float) -> AgentState:
        """Restore what has expired, correct what others changed, and return how the node is.

        ``now_s``: seconds since the epoch; ``clock_s``: a clock that never goes back.
        """
        if now_s >= self._expires_s:
            self._note("expired limits", f"message {self._number}")
            self.restore()
        self._correct()
        return self.state(now_s, clock_s)

    def restore(self) -> None:
        """Set all limits to what was found."""
        for text in self.originals.restore(self.limits):
            self._note("not restored", text)
        self._set.clear()
        self._expires_s = math.inf

    def set_again(self, now_s: float) -> None:
        """Set the limits in force once more, after the keeper died or restored them; not those that have expired."""
        if not self._set or now_s >= self._expires_s:
            return
        try:
            self.originals.save()
        except OutputError as error:
            self._note("values found not saved", str(error))
        for name, value in list(self._set.items()):
            self._write(name, value, kept=True)

    def state(self, now_s: float, clock_s: float) -> AgentState:
        """Return how the node is."""
        power_w = self._meter.read(clock_s)
        limits, low, high = {}, {}, {}
        for name, limit in self.limits.items():
            allowed = self.allowed(name)
            try:
                if allowed is not None:
                    low[name], high[name] = within(limit.range(), allowed)
                limits[name] = limit.read()
            except LimitError as error:
                self._problems[name] = str(error)
        counters = {} if self.counters is None else self.counters.read()
        uncounted = [] if self.counters is None or counters else [f"counters: {self.counters.problem}"]
        problems = (*self._problems.values(), *self._meter.problems, *uncounted)
        return AgentState(
            node=self.node,
            instance=self.instance,
            number=self._number if math.isfinite(self._expires_s) else 0,
            time_s=now_s,
            metered=self._meter.names,
            power_w=power_w,
            limits=limits,
            low=low,
            high=high,
            counts=dict(self.counts),
            problems=problems,
            counters=counters,
        )

    def _refused(self, desired: Desired, now_s: float) -> str:
        """Return why a message is refused as a whole; empty if it is not."""
        if desired.node != self.node:
            return "message for another node"
        if desired.number < self._number:
            return "message older than the one before"
        if desired.expires_s <= now_s:
            return "message expired"
        if desired.expires_s > now_s + LONGEST_S:
            return f"message that holds for more than {LONGEST_S:.0f} s"
        # Its number is the time of issue: all that follow look older until that time has come. So one that is accepted
        # keeps others out for AHEAD_S at most, and for no longer than it holds itself.
        if desired.number > round(min(now_s + AHEAD_S, desired.expires_s) * 1e9):
            return "message from the future"
        return ""

    def _take(self, wanted: Mapping[str, float]) -> None:
        """Set the limits of the message in force, as far as they may be set, and store the lease."""
        allowed = {name: value for name, value in wanted.items() if self._may(name)}
        self.originals.lease = HeldLimits(self._number, self._expires_s, allowed)
        self._apply(allowed)
        if self.originals.values:
            try:
                self.originals.save()
            except OutputError as error:
                self._note("lease not saved", str(error))

    def _may(self, name: str) -> bool:
        """Whether the controller may set a limit; counts why not."""
        if name not in self.limits:
            self._note("unknown limit", name)
        elif self.allowed(name) is None:
            self._note("limit not allowed", name)
        else:
            return True
        return False

    def _in_range(self, name: str, value: float) -> float:
        """Return the value to set. Raises: LimitError where the hardware does not take what is asked for."""
        hardware, allowed = self.limits[name].range(), self.allowed(name)
        if not hardware.low <= value <= hardware.high:
            raise LimitError(
                f"{value:g} is not within the hardware's {hardware.low:g} to {hardware.high:g}", where=name
            )
        low, high = within(hardware, allowed or hardware)
        if not low <= value <= high:
            self._note("limit outside the site's range", f"{name}: {value:g} is set to the nearer of {low:g}, {high:g}")
        return min(max(value, low), high)

    def _apply(self, wanted: Mapping[str, float]) -> None:
        """Set limits, and restore those that are not asked for any more: first what is lowered, then what is raised."""
        targets = {name: value for name, value in self.originals.values.items() if name not in wanted}
        for name, value in wanted.items():
            try:
                targets[name] = self._in_range(name, value)
                self.originals.keep(name, self.limits[name].read())
            except (LimitError, OutputError) as error:
                targets.pop(name, None)
                self._note("limit not set", str(error))
        for name in sorted(targets, key=lambda name: targets[name] - self._set.get(name, self.originals.values[name])):
            self._write(name, targets[name], kept=name in wanted)

    def _write(self, name: str, value: float, *, kept: bool) -> None:
        """Set one limit, and read it back. ``kept`` says whether it is asked for."""
        limit = self.limits[name]
        try:
            limit.write(value)
            found = limit.read()
        except LimitError as error:
            self._note("limit not set", str(error))
            return
        if kept:
            self._set[name] = value
        else:
            self._set.pop(name, None)
        if abs(found - value) > ROUNDING * value:
            self._note("limit not taken", f"{name}: {value:g} was set, {found:g} is in force")

    def _correct(self) -> None:
        """Set what another program changed once more."""
        for name, value in list(self._set.items()):
            try:
                found = self.limits[name].read()
            except LimitError as error:
                self._note("limit not readable", str(error))
                continue
            if abs(found - value) > ROUNDING * value:
                self._note("limit changed by another program", f"{name}: {found:g} instead of {value:g}")
                self._write(name, value, kept=True)

    def _note(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        self._problems[kind] = f"{kind}: {text}"


def within(hardware: Bounds, allowed: Bounds) -> Bounds:
    """Return the range that both allow; the hardware's nearest value where they do not meet."""
    low, high = (min(max(end, hardware.low), hardware.high) for end in allowed)
    return Bounds(low, high)
