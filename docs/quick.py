"""What Sphinx and its theme do again for each page is done once: half of the time of a build went there.

Pages are the same to the byte.
"""

from __future__ import annotations

import copy
import gc
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from sphinx.domains.python import ObjectEntry, PythonDomain
from sphinx.search.en import SearchEnglish

TAG = re.compile(r"<(/?)(?:ul|li)\b[^>]*>")
CURRENT = re.compile(r'current (?=reference)|(?<=toctree-l\d) current| class="current"')


class Names(PythonDomain):
    """Sphinx' names of Python objects, looked for among those alone that end as the name does.

    Sphinx reads the whole list of objects up to three times for each name in a signature; for many (``float``,
    ``Path``) there is none.
    """

    _known: tuple[int, dict[str, dict[str, ObjectEntry]]] = 0, {}

    def find_obj(self, env: Any, modname: str, classname: str, name: str, *kind: Any) -> list[tuple[str, ObjectEntry]]:
        """Return the objects that a name may mean."""
        alike = self._by_ending().get(name.removesuffix("()").rpartition(".")[2])
        if alike is None:
            return []
        few = copy.copy(self)
        few.data = {**self.data, "objects": alike}
        return PythonDomain.find_obj(few, env, modname, classname, name, *kind)

    def _by_ending(self) -> dict[str, dict[str, ObjectEntry]]:
        """Return all objects by the last part of their names."""
        if self._known[0] != len(self.objects):
            found: dict[str, dict[str, ObjectEntry]] = {}
            for name, entry in self.objects.items():
                found.setdefault(name.rpartition(".")[2], {})[name] = entry
            self._known = len(self.objects), found
        return self._known[1]


class Words(SearchEnglish):
    """English words of the search, each stemmed once, not once a page."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._stem = cache(super().stem)

    def stem(self, word: str) -> str:
        """Return a word without its ending."""
        return self._stem(word)


class Trees:
    """The tree of all pages, which Furo writes into each page: made once for each folder, in which links are alike."""

    def __init__(self) -> None:
        self._made: dict[object, str] = {}

    def share(self, app: Any, page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
        """Sphinx' hook before Furo's: give the page a tree that is made from that of another page of its folder."""
        make = context.get("toctree")
        if make is not None:
            own = app.builder.get_target_uri(page).rpartition("/")[2]
            context["toctree"] = lambda **how: self._tree(make, page.rpartition("/")[0], own, how)

    def _tree(self, make: Callable[..., str], folder: str, own: str, how: dict[str, Any]) -> str:
        """Return the tree with the page ``own`` marked as the current one."""
        key = folder, *how.items()
        if key not in self._made:
            self._made[key] = CURRENT.sub("", make(**how)).replace('href="#"', f'href="{own}"')
        tree = self._made[key]
        link = tree.find(f'<a class="reference internal" href="{own}">')
        if link < 0:
            return tree
        pieces, done = list[str](), 0
        for tag in around(tree, link):
            current = '<ul class="current">' if tag[0] == "<ul>" else tag[0].replace('">', ' current">')
            pieces += [tree[done : tag.start()], current]
            done = tag.end()
        behind = tree[link:].split(">", 1)[1]
        return "".join([*pieces, tree[done:link], '<a class="current reference internal" href="#">', behind])


def around(tree: str, place: int) -> Iterator[re.Match[str]]:
    """The lists and entries that are open at a place of a tree, from the outermost one."""
    opened: list[re.Match[str]] = []
    for tag in TAG.finditer(tree, 0, place):
        if tag[1]:
            opened.pop()
        else:
            opened.append(tag)
    yield from opened


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_domain(Names, override=True)
    app.add_search_language(Words)
    app.connect("html-page-context", Trees().share, priority=400)
    # What was built lives until the process ends, which would look through all of it for garbage.
    app.connect("build-finished", lambda *_: gc.freeze())
    return {"parallel_read_safe": True}
