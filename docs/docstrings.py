"""Docstrings are plain text: paragraphs, lists, ``code``. This makes valid reStructuredText of any of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

LABEL = re.compile(r"^(Shapes?|Invariants?|Raises|References?|Units?|Returns|Symbols|Events): ")
ITEM = re.compile(r"^([-*]|\d+\.) +")
LITERAL = re.compile(r"(``.*?``)")
SPECIAL = re.compile(r"([*|`\\]|(?<=\w)_(?!\w))")


def process(_app: Any, _what: str, _name: str, _subject: Any, _options: Any, lines: list[str]) -> None:
    """Sphinx' hook: rewrite the lines of one docstring in place."""
    lines[:] = list(rewritten(lines))


def rewritten(lines: list[str]) -> Iterator[str]:
    """The docstring's lines as reStructuredText: code blocks and drawings as they are, the rest as text."""
    verbatim = False
    for blank, group in groupby(lines, key=lambda line: not line.strip()):
        if blank:
            continue
        block = list(group)
        verbatim = is_drawing(block) or (verbatim and block[0].startswith("    "))
        if verbatim:
            yield from ("::", "", *(f"    {line}" for line in block))
        else:
            yield from paragraph(block)
            verbatim = block[-1].rstrip().endswith("::")
        yield ""


def is_drawing(block: list[str]) -> bool:
    """A tree, a diagram or a table drawn with characters."""
    return any(mark in line for line in block for mark in ("├", "└", "│", "-->", "<-"))


def paragraph(block: list[str]) -> Iterator[str]:
    """One paragraph, or a list with one item per line; hanging indents are normalised."""
    indent = ""  # of lines that continue an item: reStructuredText wants them below the item's text
    for i, line in enumerate(block):
        text = line.strip()
        label, item = LABEL.match(text), ITEM.match(text)
        if i and (label or item):
            yield ""
        if item:
            mark = "#. " if item[1][0].isdigit() else "- "
            indent = " " * len(mark)
            yield mark + escaped(text[item.end() :])
        elif label:
            yield f"**{label[1]}.** {escaped(text[label.end() :])}"
        else:
            yield indent + escaped(text.removesuffix("::"))


def escaped(text: str) -> str:
    """Characters that would be markup, outside of literals, stand for themselves."""
    pieces = LITERAL.split(text)
    return "".join(p if p.startswith("``") else SPECIAL.sub(r"\\\1", p) for p in pieces)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True}
