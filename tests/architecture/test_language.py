"""The language of the project: one meaning per name, no retired words, every cited rule and decision exists."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.source import Module, modules, of_every_module, run_time_imports
from tools.packages import CORE, ROOT, packages

GLOSSARY = ROOT / "docs" / "glossary.md"
SEMANTICS = ROOT / "docs" / "semantics.md"
DECISIONS = ROOT / "docs" / "adr"
HISTORY = {GLOSSARY, ROOT / "CHANGELOG.md"}
"""Files that may use retired words: the list of them, and the record of what has changed."""


def public_classes() -> dict[str, list[str]]:
    """The modules in which each public class name stands at top level."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module.name)
    return found


def test_a_public_class_name_has_one_meaning() -> None:
    doubled = {name: places for name, places in public_classes().items() if len(places) > 1}
    assert not doubled, "rename one of them, or nest it in the class that it belongs to"


def retired() -> list[str]:
    """Words and phrases of the glossary's table of retired words, as its first column quotes them."""
    text = GLOSSARY.read_text(encoding="utf-8")
    rows = re.findall(r"^\| *(`[^|]*) *\|", text.partition("| retired |")[2], re.MULTILINE)
    return [phrase for row in rows for phrase in re.findall(r"`([^`]+)`", row)]


def test_the_glossary_lists_retired_words() -> None:
    assert len(retired()) >= 20


def pattern_of(phrase: str) -> str:
    """A regular expression that finds a phrase as whole words, over line breaks too."""
    words = r"\s+".join(re.escape(word) for word in phrase.split())
    before = r"(?<![\w-])" if phrase[0].isalnum() or phrase[0] == "_" else ""
    after = r"(?![\w-])" if phrase[-1].isalnum() or phrase[-1] == "_" else ""
    return f"{before}{words}{after}"


def texts() -> Iterator[Path]:
    """Every file that people read: sources with their pages, documents, examples, tools."""
    for folder in ("src", "docs", "examples", "bench", "tools"):
        for path in sorted((ROOT / folder).rglob("*")):
            plain = path.suffix in {".py", ".md", ".toml", ".js", ".css", ".html", ".csv", ".sh", ".lua", ".out"}
            if plain and not {"_build", "vendor", "generated"} & set(path.parts):
                yield path
    yield from sorted(ROOT.glob("*.md"))


def uses(text: str) -> Iterator[re.Match[str]]:
    """Where a text uses retired words. A search for the words is quick, so that few patterns are tried."""
    lower = text.lower()
    for words, pattern in patterns():
        if all(word in lower for word in words):
            yield from pattern.finditer(text)


@cache
def patterns() -> list[tuple[list[str], re.Pattern[str]]]:
    """The words of each retired phrase, and the expression that finds it."""
    return [(p.lower().split(), re.compile(pattern_of(p), re.IGNORECASE)) for p in retired()]


def test_no_retired_word_is_used() -> None:
    used = []
    for path in texts():
        if path in HISTORY:
            continue
        text = path.read_text(encoding="utf-8")
        used += [
            f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, m.start()) + 1}: {' '.join(m.group().split())}"
            for m in uses(text)
        ]
    assert not used, "docs/glossary.md says what to use instead"


def test_a_retired_phrase_is_found_over_line_breaks() -> None:
    phrase = next(p for p in retired() if " " in p)
    assert [" ".join(m.group().split()) for m in uses(phrase.upper().replace(" ", "\n  "))] == [phrase.upper()]


def rules() -> set[int]:
    """Numbers of the rules that docs/semantics.md states: each has an anchor ``(rule-8)=``."""
    return {int(n) for n in re.findall(r"^\(rule-(\d+)\)=$", SEMANTICS.read_text(encoding="utf-8"), re.MULTILINE)}


def cited_rules(text: str) -> Iterator[int]:
    """Rule numbers that a text cites: "rule 8", "rules 7 and 8", "rules 7, 8", "rules 3-5"."""
    for cited in re.findall(r"\brules?\s+(\d+(?:(?:\s*,\s*|\s+and\s+|\s*-\s*|\s+to\s+)\d+)*)", text, re.IGNORECASE):
        yield from (int(n) for n in re.findall(r"\d+", cited))


def test_the_specification_numbers_its_rules_without_a_gap() -> None:
    assert rules() == set(range(1, max(rules()) + 1))


def test_citations_of_rules_are_found() -> None:
    assert list(cited_rules("semantics, rules 7, 8 and\n14; rule 2 (rule-9)")) == [7, 8, 14, 2]


@of_every_module
def test_every_cited_rule_and_decision_exists(module: Module) -> None:
    text = module.path.read_text(encoding="utf-8")
    assert set(cited_rules(text)) <= rules(), "docs/semantics.md has no such rule"
    decisions = {path.name[:4] for path in DECISIONS.glob("[0-9]*.md")}
    cited = set(re.findall(r"\badr/(\d{4})", text)) | set(re.findall(r"\bADR[ -](\d{4})", text))
    assert cited <= decisions, "docs/adr has no such decision"


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = sorted(int(path.name[:4]) for path in DECISIONS.glob("[0-9]*.md"))
    assert numbers == list(range(1, len(numbers) + 1))


def test_documents_cite_rules_and_decisions_that_exist() -> None:
    decisions = {path.name[:4] for path in DECISIONS.glob("[0-9]*.md")}
    for path in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        if "_build" not in path.parts:
            text = path.read_text(encoding="utf-8")
            assert set(re.findall(r"\badr/(\d{4})", text)) <= decisions, path


@of_every_module
def test_private_modules_are_imported_in_their_own_package_only(module: Module) -> None:
    wrong = [
        f"{module.at(node)} imports {name}"
        for node, name in run_time_imports(module)
        if (parts := name.removeprefix(f"{CORE}.").split(".")) != [name] or parts[0] in packages()
        if any(part.startswith("_") and not part.startswith("__") for part in parts[1:]) and parts[0] != module.area
    ]
    assert not wrong, "make the module public, or import the name from a public one"


def test_rows_are_unusable_and_jobs_are_rejected() -> None:
    """One meaning each (docs/glossary.md): a reader makes no job of a row, the simulator lets no entry of a job in."""
    rejecting = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "src" / "wattqueue" / "formats").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search("reject", line, re.IGNORECASE) and "State.REJECTED" not in line
    ]
    assert not rejecting
