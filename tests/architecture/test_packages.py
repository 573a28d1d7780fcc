"""Every import package is looked at by every check: tests of the rules, types, lint, coverage and the wheel."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest

from tests.architecture import test_house, test_language
from tests.architecture.source import RULES, modules, modules_in, tree_of
from tools.packages import CORE, ROOT, packages

PLANTED = {
    "test_imports_follow_the_arrows": "from wattqueue_other import name",
    "test_only_one_folder_imports_the_compiler": "import numba",
    "test_only_some_open_files": "text = open('file')",
    "test_time_and_chance_are_handed_in": "import time\nnow = time.time()",
    "test_whole_numbers_are_recognised_in_one_place": "whole = text.isdigit()",
    "test_sizes": "\n" * 601,
    "test_every_module_says_what_it_is": "x = 1",
    "test_private_modules_are_imported_in_their_own_package_only": "from wattqueue.kernels import _numba",
}
"""A violation of rules that hold for modules of any area."""


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_list_names_every_folder_of_sources() -> None:
    assert sorted(packages()) == sorted(path.parent.name for path in (ROOT / "src").glob("*/__init__.py"))
    assert {path.name for path in (ROOT / "src").iterdir() if path.name != "__pycache__"} == set(packages())


def test_modules_of_every_package_are_found() -> None:
    found = {module.path.relative_to(ROOT / "src").parts[0] for module in modules()}
    assert found == set(packages())


@pytest.mark.parametrize("rule", sorted(PLANTED))
@pytest.mark.parametrize("package", packages())
def test_a_planted_violation_is_found(package: str, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (test_house, test_language):
        monkeypatch.setattr(place, "packages", lambda: (CORE, package, "wattqueue_other"))
    monkeypatch.setattr(test_house, "FLOORS", [*test_house.FLOORS, {"planted", "wattqueue_other"}])
    file = tmp_path / "src" / package / "planted" / "part.py"
    file.parent.mkdir(parents=True)
    file.write_text('"""A module without a violation."""\n', encoding="utf-8")
    (module,) = modules_in(tmp_path, [package])
    RULES[rule](module)
    file.write_text(PLANTED[rule], encoding="utf-8")
    (module,) = modules_in(tmp_path, [package])
    with pytest.raises(AssertionError):
        RULES[rule](module)


def test_checkers_look_at_all_sources() -> None:
    """Types, lint, coverage and the source distribution take the folder, not the packages in it."""
    tool = project()["tool"]
    assert "src" in tool["mypy"]["files"]
    assert "src" in tool["hatch"]["build"]["targets"]["sdist"]["include"]
    assert tool["coverage"]["run"]["source"] == ["src"]
    assert tool["coverage"]["report"]["include"] == ["src/*"]
    assert not [pattern for pattern in tool["ruff"]["lint"]["per-file-ignores"] if "wattqueue" in pattern]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"src/{CORE}" not in makefile
    assert "ruff check src " in makefile


WHOLE = {"architecture", "bench", "fuzz", "package", "tools"}
"""Folders of tests of the repository as a whole; tests of a package beside the core are in a folder of its name."""


def test_tests_of_the_core_import_no_other_package() -> None:
    """``make test-core`` runs them where the other packages cannot be imported."""
    others = packages()[1:]
    own = re.compile(rf"({'|'.join(others)}|tests\.({'|'.join([*others, *WHOLE])}))\b")
    wrong = []
    for path in (ROOT / "tests").rglob("*.py"):
        folder = path.relative_to(ROOT / "tests").parts[0]
        if folder in WHOLE or folder in others:
            continue
        for node in ast.walk(tree_of(path)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong += [f"{path.relative_to(ROOT)} imports {name}" for name in names if own.match(name)]
    assert not wrong
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"$(patsubst %,tests/%,{' '.join(sorted(WHOLE))})" in makefile


def test_entry_points_name_what_is_there() -> None:
    """What pyproject.toml states can be imported, and the installed distribution states the same."""
    stated = project()["project"]["entry-points"]
    assert set(stated) == {"wattqueue.live", "wattqueue.policies", "wattqueue.verbs"}
    for group, points in stated.items():
        for name, value in points.items():
            EntryPoint(name, value, group).load()
        found = {point.name: point.value for point in entry_points(group=group)}
        assert points.items() <= found.items(), "install this repository again (make does)"


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_names_each_package_once_and_nothing_without_a_hash(name: str) -> None:
    """``pip install --require-hashes`` refuses a lock with WattQueue in it, which extras that name another bring."""
    found = re.findall(r"^(\S+)(==| @ )(.*)$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    assert [package for package, between, _ in found if between != "=="] == []
    assert [package for package, count in Counter(package for package, *_ in found).items() if count > 1] == []
