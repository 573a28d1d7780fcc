"""Choices that take a list of parts: what several parts of one choice are together.

A list is made one part, by the function of its choice in ``TOGETHER``. A choice without one takes a single part.
Controls are no such choice: a policy has any number of them, and they stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wattqueue.errors import PolicyError
from wattqueue.policy.interfaces import method_of, stated
from wattqueue.policy.registry import part_name

if TYPE_CHECKING:
    from wattqueue.parts.frequency_in_turn import FrequencyInTurn
    from wattqueue.policy.corrected import Corrected

Parts = tuple[Any, ...]


def _frequency(parts: Parts) -> FrequencyInTurn:
    """Return frequency parts in turn.

    Raises: PolicyError for two that add options for load targets, and for one that has no window before it.
    """
    from wattqueue.parts.frequency_in_turn import FrequencyInTurn

    adding = [part for part in parts if method_of(part, "in_targets") is not None]
    if len(adding) > 1:
        raise PolicyError(f"{len(adding)} parts add options for load targets", hint="leave all but one out")
    if adding and adding[0] is parts[0]:
        raise PolicyError("the first part of the list has no window to add options to", hint="list it behind another")
    highest = all(stated(part, "highest_only", False) for part in parts)
    return FrequencyInTurn(parts, adds=adding[0] if adding else None, highest_only=highest)


def _estimator(parts: Parts) -> Corrected:
    """Return a base and its corrections as one estimator. Raises: PolicyError for a correction that occurs twice."""
    from wattqueue.policy.corrected import Corrected

    return Corrected(parts[0], parts[1:])


TOGETHER: Mapping[str, Callable[[Parts], Any]] = {"estimator": _estimator, "frequency": _frequency}
"""What makes one part of several, in the order in which a row lists them. Raises: PolicyError."""


def parts_in(part: Any) -> Parts:
    """Return the parts that a list was made of; the part itself where there was no list."""
    found: Parts = stated(part, "parts", (part,))
    return found


def name_of(part: Any) -> str:
    """Return the key of a part; those of a list, joined by commas as in a row's name: ``history-mean,margin``."""
    return ",".join(part_name(type(each)) for each in parts_in(part))


def one_part(policy: str, axis: str, parts: Parts) -> Any:
    """Return the part of a choice.

    Raises: PolicyError naming the policy, for a list without parts, and for one that the choice does not take.
    """
    if len(parts) == 1:
        return parts[0]
    if not parts:
        raise PolicyError(f"{axis} is an empty list", where=policy, hint=f'write {axis} = "name"')
    if axis not in TOGETHER:
        raise PolicyError(
            f"{axis} takes one part, not {len(parts)}",
            where=policy,
            hint=f"lists are for {', '.join((*TOGETHER, 'controls'))}",
        )
    try:
        return TOGETHER[axis](parts)
    except PolicyError as error:
        raise PolicyError(f"{axis}: {error.what}", where=policy, hint=error.hint) from None
