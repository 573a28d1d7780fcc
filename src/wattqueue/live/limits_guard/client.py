"""The planner's side of the process that publishes limits: requests go over its socket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wattqueue.live.guard.client import GuardConnection
from wattqueue.live.guard.wire import Packet
from wattqueue.live.slurm.commands import SlurmError

UNIT = "wattqueue-limits.service"
ASK_S = 1.0
"""Longest wait for an answer; limits in force hold meanwhile, and a request is sent again when it is renewed."""


@dataclass
class SocketSender:
    """Hands requests over (``live.agents.LimitSender``)."""

    guard: GuardConnection
    problem: str = ""

    def send(self, limits: Mapping[str, Mapping[str, float]]) -> None:
        """Hand over limits of nodes by name; what was not taken is a problem."""
        request = {name: dict(values) for name, values in limits.items()}
        try:
            answer = self.guard.ask(Packet({"do": "ask", "limits": request}))
        except SlurmError as error:
            self.problem = error.what
            return
        refused = answer.header.get("refused")
        self.problem = f"limits of {refused} nodes were refused: does `node_w` name them?" if refused else ""

    def close(self) -> None:
        """End the connection."""
        self.guard.close()


def limits_at(socket: Path) -> SocketSender:
    """Return where a planner asks for limits."""
    return SocketSender(GuardConnection(socket, ASK_S, "what publishes limits", UNIT))
