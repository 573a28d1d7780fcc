"""What a policy may do: the actions that controls and passes return, and the refusals that come back.

They are defined with the contracts of the parts (``parts/actions.py``); this module is where drivers import them from.
"""

from wattqueue.parts.actions import (
    Action,
    Refusal,
    Requeue,
    SetFrequency,
    SetSocketCap,
    StartJob,
    StopNode,
    WakeNode,
)

__all__ = ["Action", "Refusal", "Requeue", "SetFrequency", "SetSocketCap", "StartJob", "StopNode", "WakeNode"]
