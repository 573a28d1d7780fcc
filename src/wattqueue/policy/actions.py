"""What a policy may do: the actions that controls and passes return, and how a driver carries them out.

The classes are defined with the contracts of the parts (``parts/actions.py``), where it is stated once what an action
means. Each driver has a table (``DriverAbilities.actions``) that names for every kind of action the function that
carries it out, or the reason why it is refused: a new kind of action is a class, and one entry in each table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from wattqueue.errors import PolicyError
from wattqueue.parts.actions import Action

KINDS: tuple[type, ...] = get_args(Action)
"""Every kind of action."""
WRONG_STATE = "wrong state"
NO_FREE_UNIT = "no free unit"
NO_OPTION = "no such option"
NO_POWER = "not enough power below the cap"
NO_CONSENT = "for a load target, without the consent of the job's user"
REASONS = ("", WRONG_STATE, NO_FREE_UNIT, NO_OPTION, NO_POWER, NO_CONSENT)
"""What a refusal code of the kernels means, as parts and users read it; empty for an action that was carried out."""


def listed(answer: Any, kinds: tuple[type, ...], part: object, method: str) -> Sequence[Any]:
    """Return what a part returned, if it is a list of values of ``kinds``.

    A part that forgets its ``return`` would otherwise fail far from its own code.

    Raises: PolicyError naming the part.
    """
    # Named classes first: a list of ours is told without a look at abstract classes, at each call of a control.
    if type(answer) is list or (isinstance(answer, Sequence) and not isinstance(answer, str)):
        for value in answer:
            if type(value) not in kinds and not isinstance(value, kinds):
                break
        else:
            found: Sequence[Any] = answer
            return found
    expected = ", ".join(kind.__name__ for kind in kinds)
    raise PolicyError(
        f"{method} returned {answer!r}", where=type(part).__name__, hint=f"return a list of {expected}; [] for none"
    )


def carry_out(table: Mapping[type, Callable[[Any, Any], str] | str], driver: Any, action: Action, part: object) -> str:
    """Have ``driver`` carry out an action; return an empty text, or why it was refused.

    Raises: PolicyError naming the part, for a job that is no name, and a unit or option that is not a whole number.
    """
    carrier = table[type(action)]
    if isinstance(carrier, str):
        return carrier
    try:
        return carrier(driver, action)
    except (TypeError, OverflowError) as error:
        raise PolicyError(
            f"{action!r}: {error}",
            where=type(part).__name__,
            hint="jobs are named as view.job_id(row) says; units, partitions and options are whole numbers",
        ) from error
