"""The oracles of a policy by name, and the words by which every output marks them.

A reader of a result must see whether it rests on knowledge that no scheduler has. Texts, tables, figures and pages take
the mark from here (``marked``); files have the names in a field or column ``oracle``.
"""

from __future__ import annotations

from wattqueue.parts.oracles import is_oracle
from wattqueue.policy.capabilities import parts_of
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy, part_name


def oracles_of(policy: Policy) -> str:
    """Return the names of the parts of a policy that know the future, joined by commas; empty for none."""
    return ", ".join(part_name(type(part)) for _, part in parts_of(policy) if is_oracle(part))


def marked(label: str, oracles: str) -> str:
    """Return what an output calls a run, a policy or an estimator, marked where it has oracles.

    ``oracles`` is what ``oracles_of`` returned: ``easy (oracle: oracle-max)``; ``easy, oracle-max (oracle)`` where the
    label has the names already. A label that is marked stays as it is.
    """
    if not oracles or "(oracle" in label:
        return label
    return f"{label} (oracle)" if oracles in label else f"{label} (oracle: {oracles})"


def marked_policy(name: str) -> str:
    """Return the name of a policy row, with the short mark where a part of it knows the future: for narrow tables."""
    return f"{name} (oracle)" if oracles_of(load_policy(name)) else name
