"""What a session acts on: the simulator's world, or a round of the live controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wattqueue.kernels import state
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Floats
from wattqueue.policy.capabilities import DriverAbilities

if TYPE_CHECKING:
    from wattqueue.parts.actions import Refusal
    from wattqueue.policy.view import View


class Driver(Protocol):
    """What a session acts on: the world of one instant."""

    kernel: state.KernelView
    """The present, as kernels see it."""

    @property
    def abilities(self) -> DriverAbilities:
        """Return what this driver carries out."""
        ...

    @property
    def signals(self) -> Signals:
        """Return what has been announced."""
        ...

    @property
    def device_limits_w(self) -> Floats:
        """Return the limits in force of all devices, inf for none. Shape (D,)."""
        ...

    def view(self, refusals: tuple[Refusal, ...], part: object = None) -> View:
        """Return the present as ``part`` sees it; an oracle sees more than others (``parts/oracles.py``)."""
        ...
