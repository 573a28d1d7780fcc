"""What a part offers is looked up in one place: nothing else asks whether an object has an attribute."""

from __future__ import annotations

import ast

from tests.architecture.source import Module, modules, of_every_module

ONE_PLACE = "policy.interfaces"
"""Parts are structural, and much of their interfaces is optional: here it is looked up, by name."""
NO_PARTS = {
    "cli._app": "a verb's module may have verbs of its own",
    "cli._ascii": "a stream that was replaced may not be reconfigurable",
    "formats.read": "a file of the user's may have no FORMAT",
    "store.failures": "an error of the database may have no cause",
    "live.telemetry.base": "a source of telemetry may have nothing to close",
    "live.telemetry.pm_counters": "an error in a value has no text of the operating system",
    "model.codec": "a column may be a table, which takes its own rows",
    "parts.oracles": "knows_future is asked below policy, and nowhere else",
    "parts.regressors": "scikit-learn asks a model whether it was fitted, which shows in what fit() sets",
    "store.database": "an error of the database may have no cause",
}
"""Modules that look for an attribute of something else, and why."""


def probes(module: Module) -> list[str]:
    """Where a module calls ``hasattr``, or ``getattr`` with a default or with the text of a name."""
    found = []
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        name, arguments = node.func.id, node.args
        asks = name == "hasattr" or (
            name == "getattr" and (len(arguments) == 3 or isinstance(arguments[1], ast.Constant))
        )
        if asks:
            found.append(module.at(node))
    return found


@of_every_module
def test_nothing_else_asks_what_an_object_has(module: Module) -> None:
    found = probes(module)
    if module.name == ONE_PLACE or module.name in NO_PARTS:
        assert found, "take it off the list"
    else:
        assert found == [], f"ask {ONE_PLACE}, or state a default in a base class"


def test_a_probe_is_found() -> None:
    text = "a = hasattr(x, 'y')\nb = getattr(x, 'y', None)\nc = getattr(x, 'y')\nd = getattr(x, name)\n"
    module = Module(modules()[0].path, "sample")
    module.__dict__["tree"] = ast.parse(text)
    assert [at.rpartition(":")[2] for at in probes(module)] == ["1", "2", "3"]
