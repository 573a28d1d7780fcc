"""Pages made from the program itself: quantities, verbs, and one page a package of the API."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import typer
from typer.testing import CliRunner

import wattqueue
from wattqueue.cli import _app
from wattqueue.model.quantities import quantities

INTERNAL = ("cli", "kernels", "lazy")
"""Packages without a page: the verbs have one of their own, kernels are called by the engine only, and ``lazy``
serves packages of WattQueue."""


def write_pages(folder: Path) -> None:
    """Write all pages to ``folder``; a page whose text has not changed keeps its time."""
    pages = {"quantities.md": quantities_page(), "verbs.md": verbs_page(), **api_pages()}
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
    module = importlib.import_module(f"wattqueue.cli.{_app.verbs()[name]}")
    nested = getattr(module, "app", None)
    if not isinstance(nested, typer.Typer):
        return []
    named = ((c.name, c.callback) for c in nested.registered_commands)
    return [name or getattr(callback, "__name__", "").rstrip("_").replace("_", "-") for name, callback in named]


def api_pages() -> dict[str, str]:
    """``api.md`` with one entry a package, and a page for each."""
    pages = {}
    names = []
    for package in pkgutil.iter_modules(wattqueue.__path__):
        if package.name in INTERNAL or package.name.startswith("_"):
            continue
        names.append(package.name)
        pages[f"api-{package.name}.md"] = _api_page(f"wattqueue.{package.name}")
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
        if not module.name.startswith("_"):
            yield from _modules(f"{name}.{module.name}")
