"""What a policy may do: the values that controls return (they are defined with the parts' contracts)."""

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
