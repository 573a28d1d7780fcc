"""The oracles of a policy by name, and the words by which every output marks them.

A reader of a result must see whether it rests on knowledge that no scheduler has. Texts, tables, reports and files take
the mark from here.
"""

from __future__ import annotations

from wattqueue.parts.oracles import is_oracle
from wattqueue.policy.capabilities import parts_of
from wattqueue.policy.policy import Policy
from wattqueue.policy.registry import part_name


def oracles_of(policy: Policy) -> tuple[str, ...]:
    """Return the parts of a policy that know the future, as ``estimator oracle-max``; empty for none."""
    return tuple(f"{axis} {part_name(type(part))}" for axis, part in parts_of(policy) if is_oracle(part))
