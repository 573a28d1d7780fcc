"""Documents: no page is too long to be read at once, and every link leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools.packages import ROOT

DOCS = ROOT / "docs"
LONGEST = 2500
"""Words of a page."""

REFERENCES = {
    "semantics.md": "the specification: sources and tests cite its rules by number",
    "glossary.md": "looked up word by word",
    "powercap-tables.md": "written by a command",
    "runtimes-tables.md": "written by a command",
    "reproduced.md": "written by a command",
}
"""Pages that may be longer, with the reason: nobody reads them from top to bottom."""

GENERATED = DOCS / "reference" / "generated"


def pages() -> list[Path]:
    """Every page of the documentation that is kept in the repository."""
    return sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts and GENERATED not in path.parents)


def documents() -> list[Path]:
    return [*pages(), *sorted(ROOT.glob("*.md")), *sorted((ROOT / "examples").glob("*.md"))]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_no_page_is_too_long() -> None:
    counted = {page.relative_to(DOCS).as_posix(): len(page.read_text(encoding="utf-8").split()) for page in pages()}
    long = {page: words for page, words in counted.items() if words > LONGEST}
    assert set(long) - set(REFERENCES) == set(), long
    assert set(REFERENCES) <= set(long), "is shorter now, or gone: take it out of the list"


def prose(text: str) -> str:
    """A page without its code blocks and code spans, which hold no links."""
    return re.sub(r"`[^`\n]*`", "``", re.sub(r"^( *)(```+|~~~+).*?^\1\2 *$", "", text, flags=re.MULTILINE | re.DOTALL))


@cache
def anchors(page: Path) -> set[str]:
    """What a link to a part of a page may name: headings as GitHub and MyST spell them, and labels ``(rule-8)=``."""
    text = re.sub(r"^( *)(```+).*?^\1\2 *$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#{1,6} +(.*?) *$", text, re.MULTILINE)
    return {slug(heading) for heading in headings} | labels(page)


@cache
def labels(page: Path) -> set[str]:
    return set(re.findall(r"^\(([\w-]+)\)=$", page.read_text(encoding="utf-8"), re.MULTILINE))


def slug(heading: str) -> str:
    """The anchor of a heading: lower case, blanks as hyphens, no other marks."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def links(text: str) -> list[str]:
    """Targets of the links and pictures of a page that lead into the repository."""
    found = re.findall(r"\]\(<?([^)\s>]+)>?\)", prose(text)) + re.findall(r"(?:src|href)=\"([^\"]+)\"", prose(text))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def dead(page: Path) -> Iterator[str]:
    """Links of a page that lead nowhere."""
    of_docs = DOCS in page.parents
    everywhere = {label for other in pages() for label in labels(other)} if of_docs else set()
    for target in links(page.read_text(encoding="utf-8")):
        file, _, part = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        if GENERATED in path.parents:
            continue  # made by docs/generate.py while the documentation is built, which refuses a dead link
        known = path.suffix != ".md" or (path.exists() and part in anchors(path) | (set() if file else everywhere))
        if not path.exists() or (part and not known):
            yield target


@pytest.mark.parametrize("page", documents(), ids=name)
def test_no_link_is_dead(page: Path) -> None:
    assert list(dead(page)) == [], f"{name(page)}: no such page, or no such heading on it"


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text(
        "# Its title\n\n```\n# no heading\n```\n(label)=\n## `a.b` and [c](d.md), twice\n"
    )
    page = tmp_path / "page.md"
    good = (
        "[a](other.md) [b](other.md#its-title) [c](other.md#label) [d](other.md#ab-and-c-twice) [e](#here)\n\n# Here\n"
    )
    page.write_text(
        good + "[f](gone.md) [g](other.md#no-heading) ![h](gone.png) [i](#nowhere) `[j](code.md)` <https://x.y>\n"
    )
    assert list(dead(page)) == ["gone.md", "other.md#no-heading", "gone.png", "#nowhere"]


def test_every_page_is_in_a_table_of_contents() -> None:
    inner = {page for page in pages() if page not in {DOCS / "index.md", DOCS / "adr" / "template.md"}}
    listed = {path for page in pages() for entry in entries(page) for path in page.parent.glob(f"{entry}.md")}
    assert inner - {path.resolve() for path in listed} == set()


def entries(page: Path) -> Iterator[str]:
    """Pages that the tables of contents of a page name."""
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        yield from (line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":"))


CITED = re.compile(r"\bdocs/[\w./-]+\.(?:md|ipynb|png)\b")


def sources() -> list[Path]:
    folders = ("src", "tests", "tools", "bench", "examples")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".toml"}]
    return [*sorted(found), ROOT / "Makefile", ROOT / "pyproject.toml"]


def test_every_page_that_a_source_cites_exists() -> None:
    cited = {(path, page) for path in sources() for page in CITED.findall(path.read_text(encoding="utf-8"))}
    gone = [f"{name(path)}: {page}" for path, page in sorted(cited) if not (ROOT / page).exists()]
    assert cited
    assert not gone
