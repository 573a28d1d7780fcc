"""Pages made from the program itself: quantities, verbs, keys of a campaign, public names, one page for each package.

``python docs/generate.py`` renews the one of them that is kept beside the guides, ``guide/view.md``.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import json
import pkgutil
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import Field, is_dataclass
from pathlib import Path
from types import ModuleType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

sys.path.insert(0, str(Path(__file__).parents[1]))  # tools

import typer
from typer.testing import CliRunner

import wattqueue
import wattqueue_grid
from tools.packages import packages
from wattqueue import parts
from wattqueue.campaign.file import CampaignFile, SlurmTable, WindowsTable, WorkloadTable
from wattqueue.cli import _app
from wattqueue.model.quantities import quantities
from wattqueue.options import is_required, options_of

ACTIONS = (
    *(
        "SetFrequency",
        "SetDeviceLimits",
        "Suspend",
        "Resume",
        "Requeue",
        "StopNode",
        "DrainNode",
        "WakeNode",
        "DelayStart",
    ),
    "StartJob",
)
INTERNAL = ("cli", "kernels", "lazy")
"""Packages without a page: the verbs have one of their own, kernels are called by the engine only, and ``lazy``
serves packages of WattQueue. In packages beside the core ``cli`` is left out, too."""


def write_pages(folder: Path) -> None:
    """Write all pages to ``folder``; a page whose text has not changed keeps its time."""
    pages = {
        "quantities.md": quantities_page(),
        "verbs.md": verbs_page(),
        "campaign-keys.md": campaign_page(),
        "public.md": public_page(),
        **api_pages(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def quantities_page() -> str:
    """One table of all columns and metrics."""
    rows = [f"| `{q.name}` | {q.unit or '-'} | {_range(q.range)} | {q.meaning} |" for q in quantities().values()]
    head = [
        "# Quantities",
        "",
        "Every column and metric that WattQueue reads or writes. A per-job figure takes the endings `_mean`,",
        "`_median`, `_p95` and `_p99` where it is summed up.",
        "",
        "| name | unit | range | meaning |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows, ""])


def _range(values: object) -> str:
    return f"`{getattr(values, 'text', 'text')}`"


def verbs_page() -> str:
    """The help of every verb, as the terminal shows it."""
    lines = ["# Commands", "", "What `wattqueue VERB --help` prints.", ""]
    for name in _app.verbs():
        app = _app.build([name])
        lines += [f"## {name}", "", *_help(app, name)]
        for command in _commands(name):
            lines += [f"### {name} {command}", "", *_help(app, name, command)]
    return "\n".join(lines)


def _help(app: typer.Typer, *words: str) -> list[str]:
    shown = CliRunner().invoke(app, [*words, "--help"], prog_name="wattqueue", terminal_width=100)
    return ["```text", shown.output.rstrip(), "```", ""]


def _commands(name: str) -> list[str]:
    """Names of the commands of a verb that has some."""
    module = importlib.import_module(_app.verbs()[name].module)
    nested = getattr(module, "app", None)
    if not isinstance(nested, typer.Typer):
        return []
    named = ((c.name, c.callback) for c in nested.registered_commands)
    return [name or getattr(callback, "__name__", "").rstrip("_").replace("_", "-") for name, callback in named]


def campaign_page() -> str:
    """Every key of a campaign file, from the fields that its reader is made of."""
    lines = ["# Keys of a campaign file", "", "The [guide](../../guide/campaign.md) shows how they work together.", ""]
    tables = (("", CampaignFile), ("[[workloads]]", WorkloadTable), ("windows", WindowsTable), ("[slurm]", SlurmTable))
    for name, described in tables:
        kinds = get_type_hints(described, include_extras=True)
        rows = [
            (one.name, kind_of(kinds[one.name]), default_of(one), _plain(what.sentence))
            for one, what in options_of(described)
        ]
        lines += [f"## `{name}`" if name else "## The file", "", summary(described), ""]
        lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
        lines += [f"| `{key}` | {kind} | {default} | {text} |" for key, kind, default, text in rows] + [""]
    return "\n".join(lines)


def kind_of(annotation: Any, limits: tuple[Any, ...] = ()) -> str:
    """A type in words: ``whole number, 1 to 10``, ``list of texts``, ``table``."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return kind_of(inner[0], (*limits, *inner[1:]))
    if origin in (Union, UnionType):
        return kind_of(next(one for one in inner if one is not type(None)), limits)
    if origin is tuple:
        return f"list: {kind_of(inner[0])}"
    ends = [end for one in limits for end in _ends(one)]
    known = {str: "text", int: "whole number", float: "number"}
    return known.get(annotation, "table") + (f", {min(ends):,} to {max(ends):,}" if len(ends) > 1 else "")


def _ends(limit: Any) -> Iterator[float]:
    """The ends of a range that a constraint of pydantic states."""
    for one in getattr(limit, "metadata", ()):
        yield from (getattr(one, end) for end in ("ge", "le") if hasattr(one, end))


def default_of(one: Field[Any]) -> str:
    """The default of a key; a dash where there is none, or where the text states what happens without the key."""
    if is_required(one):
        return "required"
    return "-" if one.default in (None, ()) or is_dataclass(one.default) else f"`{json.dumps(one.default)}`"


VIEW = Path(__file__).parent / "guide" / "view.md"


def view_page() -> str:
    """What a view offers and which actions exist, a row for each name."""
    view, actions = parts.View, [getattr(parts, name) for name in ACTIONS]
    lines = [
        "# What a view offers, which actions exist",
        "",
        "Made from the classes by `python docs/generate.py`. A part imports these names from `wattqueue.parts`;",
        "how they are used is in [Write a part of a policy](parts.md).",
        "",
        "## View",
        "",
        "What a pass, a ledger and a control receive. Watts are in the cap's scope, seconds on the trace's clock.",
        "In the shapes, q entries wait, r jobs run, n jobs are in the table, P partitions and U units in the machine.",
        "",
        *table(members(view)),
        "",
        "## Actions",
        "",
        "What a control returns in a list. There are no others: to take a job off its nodes is `Requeue`, to slow it",
        "down is `SetFrequency`. `StartJob` is what a pass decides; a pass in Python returns `Start(entry, option)`.",
        "A control's own is refused where it would delay a start or a reservation of the row's pass.",
        "",
        *table([(signature_of(action), summary(action)) for action in actions]),
        "",
        "A refused action is in the next view:",
        "",
        *table([(signature_of(parts.Refusal), summary(parts.Refusal))]),
        "",
        "## Controls",
        "",
        "A control has `period_s`, `events` and `act(view)`:",
        "",
        *table(members(parts.Control)),
        "",
    ]
    return "\n".join(lines)


def table(rows: list[tuple[str, str]]) -> list[str]:
    """The lines of a table of names and what they are."""
    return ["| name | is |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in rows)]


def members(found: type) -> list[tuple[str, str]]:
    """Fields, properties and methods that a class offers, with its bases': how each is written, and what it is."""
    own = [one for one in reversed(found.__mro__) if one.__module__.startswith("wattqueue")]
    rows = [(name, text) for one in own for name, text in attribute_texts(one).items() if not name.startswith("_")]
    for name, value in (member for one in own for member in vars(one).items()):
        if isinstance(value, property):
            rows.append((name, summary(value)))
        elif inspect.isfunction(value) and not name.startswith("_"):
            names = [parameter for parameter in inspect.signature(value).parameters if parameter != "self"]
            rows.append((f"{name}({', '.join(names)})", summary(value)))
    return rows


def attribute_texts(found: type) -> dict[str, str]:
    """The first sentence below each field of a class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(found))).body[0].body  # type: ignore[attr-defined]
    pairs = itertools.pairwise(body)
    return {
        field.target.id: _plain(str(text.value.value))
        for field, text in pairs
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def summary(found: object) -> str:
    """The first paragraph of a docstring."""
    return _plain(inspect.getdoc(found) or "")


def _plain(text: str) -> str:
    """The first paragraph of a docstring as Markdown on one line."""
    first = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
    return re.sub(r"``([^`]*)``", r"`\1`", first).removeprefix("Return ").replace("|", "\\|")


def signature_of(found: type) -> str:
    """``StopNode(node)``."""
    return f"{found.__name__}({', '.join(inspect.signature(found).parameters)})"


def public_page() -> str:
    """Every public name with its docstring, in the order of ``__all__``."""
    blocks = ["# Public names\n\nEverything else may move between releases.\n"]
    for package in (wattqueue, parts, wattqueue_grid):
        blocks.append(f"## {package.__name__}\n\n```{{eval-rst}}")
        for name in package.__all__:
            found = getattr(package, name)
            options = "   :no-index:\n" + ("   :inherited-members:\n" if _has_base(found) else "")
            blocks.append(f".. {_directive(package, name)}:: {package.__name__}.{name}\n{options}")
        blocks.append("```\n")
    return "\n".join(blocks)


def _has_base(found: object) -> bool:
    """Whether a class, but no exception, takes members from another one of ours."""
    bases = found.__mro__[1:] if inspect.isclass(found) and not issubclass(found, Exception) else ()
    return any(one.__module__.startswith("wattqueue") for one in bases)


def _directive(package: ModuleType, name: str) -> str:
    found = getattr(package, name)
    if inspect.isclass(found):
        return "autoexception" if issubclass(found, Exception) else "autoclass"
    return "autofunction" if callable(found) and not isinstance(found, ModuleType) else "autodata"


def api_pages() -> dict[str, str]:
    """``api.md`` with one entry a package, and a page for each."""
    pages = {}
    names = []
    for package in pkgutil.iter_modules(wattqueue.__path__):
        if package.name in INTERNAL or package.name.startswith("_"):
            continue
        names.append(package.name)
        pages[f"api-{package.name}.md"] = _api_page(f"wattqueue.{package.name}")
    for name in packages()[1:]:
        names.append(name)
        pages[f"api-{name}.md"] = _api_page(name)
    entries = "\n".join(f"api-{name}" for name in names)
    pages["api.md"] = f"# API reference\n\n```{{toctree}}\n:maxdepth: 1\n\n{entries}\n```\n"
    return pages


def _api_page(name: str) -> str:
    blocks = [f"# {name}\n"]
    for i, module in enumerate(_modules(name)):
        heading = f"## {module}\n\n" if i else ""
        blocks.append(f"{heading}```{{eval-rst}}\n.. automodule:: {module}\n```\n")
    return "\n".join(blocks)


def _modules(name: str) -> Iterator[str]:
    """A package and its public modules, depth first."""
    yield name
    package = importlib.import_module(name)
    for module in pkgutil.iter_modules(getattr(package, "__path__", [])):
        if not module.name.startswith("_") and module.name != "cli":
            # a plain module is not imported here: those of wattqueue_flux need a Flux, which sphinx stands in for
            yield from _modules(f"{name}.{module.name}") if module.ispkg else (f"{name}.{module.name}",)


if __name__ == "__main__":
    VIEW.write_text(view_page(), encoding="utf-8")
