"""Make policies, eight parts each, from rows that name them.

``rows.find_row`` finds a row by name, ``policy_from_row`` builds its parts.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

from wattqueue.errors import PolicyError, one_of
from wattqueue.model.machine import Machine
from wattqueue.policy.capabilities import resolve
from wattqueue.policy.interfaces import AXES, CORRECTIONS, axes_of, stated
from wattqueue.policy.lists import one_part
from wattqueue.policy.registry import Policy, class_from_file, part_class, part_names
from wattqueue.policy.row_files import read_option
from wattqueue.policy.rows import LEFT_OUT, ROW_DEFAULTS, Row, composed, find_row, is_for_machine, listed


def load_policy(
    name: str, *, machine: Machine | None = None, known: Mapping[str, Any] | None = None, **overrides: Any
) -> Policy:
    """Return a policy: a published row by name, ``my.toml:row``, or EASY with one part replaced by ``my.py:MyPart``.

    ``name`` may change single choices (``easy+backfill=conservative``, see ``rows``); ``overrides`` replaces
    them by parts of any kind (``estimator="oracle-mean"``). Rows that follow from the machine (``combined``) need
    ``machine``; ``known`` stands for the files that its ``[known]`` names, by option.

    Raises: PolicyError naming the row and the choice that is wrong.
    """
    row = find_row(name)
    row |= {axis: value for axis, value in overrides.items() if value is not None}
    if machine is not None:
        from wattqueue.policy.for_machine import SiteFacts, row_on

        row = row_on(row, SiteFacts.simulated(machine, known))
    return policy_from_row(composed(name), row)


def policy_from_row(name: str, row: Row) -> Policy:
    """Build the eight parts of a row. Choices that it leaves out have their default: rows of older records do.

    A row that follows from the machine can be looked at without one, as for a machine that gives nothing; drivers
    refuse it (``capabilities.require_carried_out``).

    Raises: PolicyError for an unknown key, a part that cannot be made, or a control that lacks what it needs.
    """
    row = {**ROW_DEFAULTS, **row}
    if not isinstance(row["source"], str):
        raise PolicyError(f"source = {row['source']!r} is not a text", where=name, hint='write source = "..."')
    unknown = set(row) - set(ROW_DEFAULTS) - {LEFT_OUT}
    if unknown:
        raise PolicyError(
            f"unknown key {sorted(unknown)[0]!r}", where=name, hint=one_of(sorted(unknown)[0], ROW_DEFAULTS)
        )
    explicit = row
    if is_for_machine(row):
        from wattqueue.policy.for_machine import SiteFacts, row_on

        explicit = row_on(row, SiteFacts(None))
    built = {axis: _built(name, axis, listed(explicit[axis])) for axis in AXES}
    controls = built.pop("controls")
    parts: dict[str, Any] = {axis: one_part(name, axis, found) for axis, found in built.items()}
    policy = Policy(name, **parts, controls=controls, row=row, made={**parts, "controls": controls})
    resolve(policy)
    return policy


def _built(policy: str, axis: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the parts of a choice; what follows the first estimator of a list corrects it.

    Raises: PolicyError as ``build_part``, naming the policy.
    """
    kinds = [CORRECTIONS if axis == "estimator" and k else axis for k in range(len(values))]
    try:
        return tuple(build_part(policy, kind, value) for kind, value in zip(kinds, values, strict=True))
    except PolicyError as error:
        if axis == "estimator":
            _require_one_base(policy, values)
        place = str(error.where or policy)
        where = f"{policy}: {place}" if CORRECTIONS in kinds and policy not in place else place
        raise PolicyError(error.what, where=where, hint=error.hint) from None


def _require_one_base(policy: str, value: Sequence[Any]) -> None:
    """Raise PolicyError for a list whose first part is a correction, or another one an estimator."""
    for k, each in enumerate(value):
        name = each.get("part") if isinstance(each, dict) else each
        if not isinstance(name, str):
            kinds = axes_of(type(name))
        elif ".py" in name:
            kinds = axes_of(class_from_file(name))
        else:
            kinds = [kind for kind in ("estimator", CORRECTIONS) if name in part_names(kind)]
        if k == 0 and kinds == [CORRECTIONS]:
            hint = f'write the base first: estimator = ["history-mean", "{name}"]'
            raise PolicyError(f"estimator {name!r} is a correction, and has no base", where=policy, hint=hint)
        if k > 0 and "estimator" in kinds:
            hint = "leave one of them out: what follows a base corrects it (margin, unit-factors)"
            raise PolicyError(f"estimator has two bases, {value[0]!r} and {name!r}", where=policy, hint=hint)


def build_part(policy: str, axis: str, value: Any) -> Any:
    """Return one part from its name, or from a table with its options; a part that is already made passes through.

    Options that the part lists in ``reads`` may name files (``row_files``).

    Raises: PolicyError naming the policy, the choice, and the options that the part takes; InputError for a file.
    """
    if isinstance(value, type):
        raise PolicyError(
            f"{axis} {value.__name__} is a class, not a part", where=policy, hint=f"give an object: {value.__name__}()"
        )
    if not isinstance(value, str | dict):
        if axis not in axes_of(type(value)):
            raise PolicyError(
                f"{axis} = {value!r} is not a part", where=policy, hint='write "name", or { part = "name", ... }'
            )
        return value
    options = dict(value) if isinstance(value, dict) else {}
    name = options.pop("part", None) if isinstance(value, dict) else value
    if not isinstance(name, str):
        raise PolicyError(f"{axis} needs a part", where=policy, hint='write { part = "name", ... }')
    try:
        found = part_class(axis, name)
    except PolicyError as error:  # the registry has no row to name
        raise PolicyError(error.what, where=error.where or policy, hint=error.hint) from None
    for key in stated(found, "reads", ()):
        if key in options:
            options[key] = read_option(key, options[key], policy)
    parameters = inspect.signature(found).parameters if options else {}
    any_key = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for key, given in options.items():
        if key not in parameters and not any_key:
            raise PolicyError(f"{axis} {name!r} has no option {key!r}", where=policy, hint=f"it takes {_takes(found)}")
        expected = _expected(parameters.get(key), given)
        if expected:
            raise PolicyError(
                f"{axis} {name!r}: {key} = {given!r} is not {expected}", where=policy, hint=f"it takes {_takes(found)}"
            )
    try:
        return found(**options)
    except (TypeError, ValueError, OverflowError) as error:
        raise PolicyError(f"{axis} {name!r}: {error}", where=policy, hint=f"it takes {_takes(found)}") from error


def _takes(part: type[Any]) -> str:
    """Return the options of a part, for a hint."""
    return ", ".join(inspect.signature(part).parameters) or "no options"


def _expected(parameter: inspect.Parameter | None, given: Any) -> str:
    """Return what an option should have been, judged by the default of its parameter; empty where it is right.

    Options without a default are left to the part, but numbers have the bounds of their unit everywhere
    (``option_bounds.of_option``). Infinity is a number only where it is the default (``window_s = inf``: no end).
    """
    from wattqueue.model.option_bounds import of_option

    default = None if parameter is None else parameter.default
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if isinstance(default, bool):
        return "" if isinstance(given, bool) else "true or false"
    if isinstance(default, int | float) and (not number or (isinstance(default, int) and not isinstance(given, int))):
        return "a whole number" if isinstance(default, int) else "a number"
    if number and parameter is not None and not (given == default == math.inf):
        bound = of_option(parameter.name, whole=isinstance(given, int))
        return "" if bound.low <= given <= bound.high else f"within {bound.text}"
    if isinstance(default, str):
        return "" if isinstance(given, str) else "a text"
    if isinstance(default, tuple):
        return "" if isinstance(given, list | tuple) else "a list"
    return ""
