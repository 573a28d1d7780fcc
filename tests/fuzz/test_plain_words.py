"""Words that are read without typer mean what typer reads in them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import pytest

from tests.fuzz.templates import templates
from wattqueue.cli._app import build
from wattqueue.cli._verbs import VERBS
from wattqueue.cli._words import plain_call
from wattqueue.verbs import OptionsVerb

PLAIN = ("jobs.csv", "--nodes", "8")
LINES = (
    *(line for lines in templates().values() for line in lines),
    ("simulate", *PLAIN, "--cap=70%", "--no-report", "-q"), ("simulate", *PLAIN, "--seed", "1", "--seed", "2"),
    ("simulate", "--nodes", "8", "jobs.csv"), ("simulate", *PLAIN, "--physics-error", "1e-2"),
    ("simulate", *PLAIN, "--cap", "-1kW"), ("simulate", *PLAIN, "--seed", "-1"), ("simulate", *PLAIN, "--nodes=eight"),
    ("simulate", *PLAIN, "--capp", "70%"), ("simulate", *PLAIN, "--no-report=1"), ("simulate", *PLAIN, "more"),
    ("simulate", *PLAIN, "-o=out"), ("simulate", *PLAIN, "-oout"), ("simulate", *PLAIN, "--out"), ("simulate",),
    ("simulate", "--", "jobs.csv"), ("simulate", *PLAIN, "-qj"), ("simulate", *PLAIN, "--help"),
)  # fmt: skip


def verb_of(words: Sequence[str]) -> OptionsVerb[Any] | None:
    module = VERBS[words[0]][0]
    verb = vars(importlib.import_module(module)).get("run") if module.startswith("wattqueue.cli.") else None
    return verb if isinstance(verb, OptionsVerb) and verb.takes_options_alone else None


@pytest.mark.parametrize("words", [line for line in LINES if verb_of(line)], ids=" ".join)
def test_plain_words_mean_what_typer_reads(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    verb, read = verb_of(words), list[Any]()
    assert verb is not None
    assert verb._own == []

    def note(options: Any) -> None:
        read.append(options)

    monkeypatch.setattr(verb, "function", note)
    if (call := plain_call(words)) is None:
        return
    call()
    build(list(words))(list(words), prog_name="wattqueue", standalone_mode=False)
    plain, typers = read
    assert plain == typers


def test_valid_lines_are_read_without_typer() -> None:
    left = [line for lines in templates().values() for line in lines if verb_of(line) and plain_call(line) is None]
    assert left == []
