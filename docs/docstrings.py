"""Docstrings are plain text: paragraphs, lists, ``code``. This makes valid reStructuredText of any of them.

And names in signatures are found in less time (``Names``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from sphinx.domains.python import ObjectEntry, PythonDomain

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


class Names(PythonDomain):
    """Sphinx' names of Python objects; those that no page describes (``float``, ``Path``) are known at once.

    Sphinx reads the whole list of objects up to three times for each of them, which took a quarter of a build.
    """

    _known: tuple[int, frozenset[str]] = 0, frozenset()

    def find_obj(self, env: Any, modname: str, classname: str, name: str, *kind: Any) -> list[tuple[str, ObjectEntry]]:
        """Objects of a name; none where no object's name ends as this one does."""
        if name.removesuffix("()").rpartition(".")[2] not in self._endings():
            return []
        return super().find_obj(env, modname, classname, name, *kind)

    def _endings(self) -> frozenset[str]:
        """The last parts of all names."""
        if self._known[0] != len(self.objects):
            self._known = len(self.objects), frozenset(name.rpartition(".")[2] for name in self.objects)
        return self._known[1]


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_domain(Names, override=True)
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True}
