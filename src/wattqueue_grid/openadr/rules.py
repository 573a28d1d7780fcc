"""What this site does with an event: the figures that the documents of OpenADR leave to a contract."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Setpoint = Literal["refuse", "absolute", "relative"]


@dataclass(frozen=True)
class SiteRules:
    """How values of events become watts of the machine's cap scope.

    Attributes:
        ven_name: Name of the VEN; draws the shift of ``randomizeStart``.
        maximum_w: Watts that a share (units ``PERCENT``) is of; None refuses shares.
        idle_w: Watts that the idle machine draws in that scope; a limit below is taken as this, and reported.
        uncounted_w: Idle watts that the scope of the cap leaves out; 0 where it is the whole machine.
        other_w: Watts of the site beside the machine: an import limit is of the whole site.
        emergency_w: Load of the machine while ``ALERT_GRID_EMERGENCY`` holds; None reports the alert and limits
            nothing.
        setpoint: Whether a ``CONTROL_SETPOINT`` is the load itself, or a change of ``reference_w``. The documents leave
            this to the program; the examples of the user guide (8.9.3) are changes.
        reference_w: Load of the site that a relative setpoint changes.
        currency: Currency of prices; another one is refused.
        ramp_w_per_s: Watts by which the limit may rise in a second after a target; inf for at once.
    """

    ven_name: str
    maximum_w: float | None = None
    idle_w: float = 0.0
    uncounted_w: float = 0.0
    other_w: float = 0.0
    emergency_w: float | None = None
    setpoint: Setpoint = "refuse"
    reference_w: float | None = None
    currency: str = "EUR"
    ramp_w_per_s: float = math.inf

    @property
    def beside_w(self) -> float:
        """Return the watts of the site that a limit of the site contains, and the scope of the cap does not."""
        return self.other_w + self.uncounted_w
