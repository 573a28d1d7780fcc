"""The notebooks of the documentation and the code of the Python guide run as printed."""

from __future__ import annotations

import ast
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

import wattqueue
from tests.api.cells import code_cells, execute, lines

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
GUIDE = DOCS / "guide" / "python.md"
README = DOCS.parent / "README.md"


@pytest.mark.compiled
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_is_stored(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for count, cell in enumerate(code_cells(json.loads(path.read_text(encoding="utf-8"))), 1):
        outputs = execute(cell, names, f"{path.name}, cell {count}")
        stored = cell["outputs"]
        assert [kinds(o) for o in outputs] == [kinds(o) for o in stored], f"cell {count}: python -m tests.api.cells"
        for new, old in zip(outputs, stored, strict=True):
            if new["output_type"] == "stream":
                assert new["text"] == old["text"], f"cell {count}: python -m tests.api.cells renews the outputs"


def kinds(output: dict[str, Any]) -> tuple[str, ...]:
    return (output["output_type"], *sorted(output.get("data", ())))


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.compiled
def test_the_guide_runs(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trace.swf.gz").write_bytes(gzip.compress(trace.read_bytes()))
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    outputs = [execute({"source": lines(block)}, names, str(GUIDE)) for block in blocks]
    assert "unit" in "".join(outputs[-1][0]["text"])
    assert (tmp_path / "out.html").is_file()
    assert (tmp_path / "gantt.pdf").is_file()


@pytest.mark.compiled
def test_the_readme_runs(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "KTH-SP2.swf.gz").write_bytes(gzip.compress(trace.read_bytes()))
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    execute({"source": lines(block)}, {}, str(README))
    assert (tmp_path / "easy.html").is_file()


@pytest.mark.compiled
def test_cells_of_ones_own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(
        r"```python\n(.*?)```", (DOCS / "guide" / "campaign.md").read_text(encoding="utf-8"), re.DOTALL
    )
    names: dict[str, Any] = {"__name__": "__main__"}
    execute({"source": lines(block)}, names, "campaign.md")
    assert names["rows"]["percent"].to_list() == [60, 80]
    assert names["rows"]["wait_s_mean"][0] > names["rows"]["wait_s_mean"][1]


def test_the_guide_lists_every_name() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert not [name for name in wattqueue.__all__ if not re.search(rf"`[^`]*\b{name}\b", text)]


PAGES = [*sorted(DOCS.glob("*.md")), *sorted((DOCS / "guide").glob("*.md")), README]
PUBLIC = {"wattqueue", "wattqueue.parts", "wattqueue_grid"}
EXTENDS = {
    "studies.md": {f"wattqueue_studies.frame.{name}" for name in ("published", "samples")},
}
"""Pages that show how to extend WattQueue itself, with the modules for it: a study is a folder of the package."""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_imports_public_names_only(page: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    found = {module for block in blocks for module in imported(block)}
    assert found <= PUBLIC | EXTENDS.get(page.name, set())


@pytest.mark.parametrize("example", sorted((DOCS.parent / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_an_example_imports_public_names_only(example: Path) -> None:
    assert imported(example.read_text(encoding="utf-8")) <= PUBLIC


def imported(code: str) -> set[str]:
    """The modules of WattQueue that code imports."""
    nodes = list(ast.walk(ast.parse(code)))
    names = [a.name for n in nodes if isinstance(n, ast.Import) for a in n.names]
    names += [n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)]
    return {name for name in names if name.startswith("wattqueue")}
