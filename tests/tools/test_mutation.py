"""The tool of ``make mutate``: which places it finds and draws, which tests it runs, what it calls killed."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tools.mutation.__main__ import ROOT, excluded, find
from tools.mutation.places import COMPILER, PACKAGES, Place, draw, places_of
from tools.mutation.tests_of import Recorded, RelevantTests, without_parameters


def changes(tmp_path: Path, source: str) -> list[tuple[str, str]]:
    """Kind and mutated source, of every place of one file."""
    (tmp_path / "a.py").write_text(source)
    found = places_of(tmp_path, "a.py")
    return [(place.kind, place.applied(source.encode()).decode()) for place in found]


@pytest.mark.parametrize(
    ("source", "kind", "after"),
    [
        ("x = a < b", "comparison", "x = a <= b"),
        ("x = (a) not in (b)", "comparison", "x = (a) in (b)"),
        ("x = a is  not b", "comparison", "x = a is b"),
        ("x = a // b", "arithmetic", "x = a * b"),
        ("x = f(a)\\\n  - b", "arithmetic", None),
        ("x = (f(a)\n  - b)", "arithmetic", "x = (f(a)\n  + b)"),
        ("x += b", "arithmetic", "x -= b"),
        ("x = a and b", "boolean", "x = a or b"),
        ("x = not (a == b)", "boolean", "x =  (a == b)"),
        ("if a: b = c", "boolean", "if not a: b = c"),
        ("x = [y for y in z if y.ok]", "boolean", "x = [y for y in z if not y.ok]"),
        ("x = 'é' if f(a) else y", "boolean", "x = 'é' if not f(a) else y"),
        ("x = 7", "constant", "x = 8"),
        ("x = 0.5", "constant", "x = 1.0"),
        ("x = True", "constant", "x = False"),
        ("def f(x=7): ...", "default", "def f(x=8): ..."),
        ("class A:\n    x: int = 7", "default", "class A:\n    x: int = 8"),
        ("def f(x):\n    x.a = x", "removed statement", "def f(x):\n    pass"),
        ("f(a,\n  b)", "removed statement", "pass"),
        ("x += a", "removed statement", "pass"),
        ("if a:\n    raise E('a' + f'{1 + 1}')", "removed statement", "if a:\n    pass"),
    ],
)
def test_each_kind_of_mutation(tmp_path: Path, source: str, kind: str, after: str | None) -> None:
    found = [changed for each, changed in changes(tmp_path, source) if each == kind]
    assert found == ([] if after is None else [after])


@pytest.mark.parametrize(
    "source",
    [
        '"""Text 1 < 2."""',
        "@deco(frozen=True)\nclass A: ...",
        "def f(x: A[1]) -> B[2]: ...",
        "if TYPE_CHECKING:\n    import a\n    x = 1",
        "x = f'{a + 1}'",
        "x = 'a' + b",
        "x = None",
        "class A:\n    x: int = field(default=a, repr=False)",
        "x = a",  # without it the name is unbound, which any test notices
    ],
)
def test_what_no_test_should_notice_is_no_place(tmp_path: Path, source: str) -> None:
    assert changes(tmp_path, source) == []


def test_every_mutation_is_another_program() -> None:
    drawn = draw(ROOT, 200, 3)
    assert {place.kind for place in drawn} == {
        "comparison", "arithmetic", "boolean", "constant", "default", "removed statement",
    }  # fmt: skip
    for place in drawn:
        source = (ROOT / place.file).read_bytes()
        assert ast.dump(ast.parse(place.applied(source))) != ast.dump(ast.parse(source)), place


def test_places_are_drawn_by_seed_as_many_of_each_package_and_one_a_line() -> None:
    drawn = draw(ROOT, 41, 5)
    assert drawn == draw(ROOT, 41, 5)
    assert drawn != draw(ROOT, 41, 6)
    of_package = [set(Path(place.file).parts[1:3]) for place in drawn]
    counts = [sum(name in names for names in of_package) for name in PACKAGES]
    assert counts == [9, 8, 8, 8, 8]
    assert len({(place.file, place.line) for place in drawn}) == len(drawn)
    assert draw(ROOT, 9, 5, packages=PACKAGES[:1]) == drawn[:9]


def wheel_of(*packages: str) -> str:
    """A pyproject.toml whose wheel holds these packages."""
    return f"[tool.hatch.build.targets.wheel]\npackages = {[f'src/{name}' for name in packages]}\n"


def test_places_of_every_package_are_drawn_by_its_name_or_that_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(wheel_of("wattqueue", "wattqueue_other"))
    files = [f"src/{name}.py" for name in ("wattqueue/live/a", "wattqueue_other/b", "wattqueue_other/live/c")]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1 < 2\ny = 3 < 4\n")
    assert {place.file for place in draw(tmp_path, 4, 1, packages=["live"])} == {files[0], files[2]}
    assert {place.file for place in draw(tmp_path, 4, 1, packages=["wattqueue_other"])} == {files[1], files[2]}


def test_a_place_is_found_again_beside_the_same_mutation_in_a_file_that_has_changed(tmp_path: Path) -> None:
    """Twice on one line, and once more on a line that reads alike."""
    file, body = tmp_path / "a.py", "def f(i):\n    i = i - 1 + 1\n    i = i - 1 + 1\n"
    file.write_text(body)
    ones = [place for place in places_of(tmp_path, "a.py") if place.before == "1"]
    changed = [place.applied(body.encode()) for place in ones]
    assert len(set(changed)) == 4
    file.write_text(f"import sys\n\n\n{body}")
    for place, after in zip(ones, changed, strict=True):
        again = find(tmp_path, asdict(place))
        assert again.applied(file.read_bytes()).endswith(after)


def test_an_excluded_place_makes_room_for_the_next() -> None:
    drawn = draw(ROOT, 4, 5)
    moved = replace(drawn[0], line=1, start=0, end=0)  # the same mutation, in a file that has changed above it
    again = draw(ROOT, 4, 5, [moved])
    assert len(again) == 4
    assert drawn[0] not in again
    assert again[1:] == drawn[1:]


def test_what_only_compiling_runs_is_left_out() -> None:
    """Each of the files exists, and is not loaded where kernels are plain Python."""
    code = "import sys, wattqueue.sim.engine; print(*(name.replace('.', '/') + '.py' for name in sys.modules))"
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert "kernels/_numba/python.py" in done.stdout
    for name in COMPILER:
        assert (ROOT / "src/wattqueue" / name).is_file()
        assert name not in done.stdout
    assert not any(place.file.endswith(COMPILER) for place in draw(ROOT, 3_000, 1, packages=["kernels"]))


def test_every_excluded_mutation_exists_and_has_a_reason() -> None:
    listed = tomllib.loads((ROOT / "tools/mutation/equivalent.toml").read_text()).get("mutation", [])
    assert len(excluded()) == len(listed)
    assert all(len(entry["reason"].split()) > 5 for entry in listed)


SOURCE = '''"""A module."""
LIMIT = 3
UNUSED = 4

def few(n):
    """Return whether n is small."""
    return n < LIMIT

class Box:
    size: int = 2

    def twice(self):
        return 2 * self.size
'''


@pytest.mark.parametrize(
    ("text", "tests"),
    [
        ("return n < LIMIT", ["quick", "slow"]),
        ("LIMIT = 3", ["quick", "slow"]),
        ("UNUSED = 4", []),
        ("size: int = 2", ["boxed"]),
        ("return 2 * self.size", ["boxed"]),
    ],
)
def test_relevant_tests_run_the_function_or_name_what_is_changed(tmp_path: Path, text: str, tests: list[str]) -> None:
    (tmp_path / "src/wattqueue/kernels").mkdir(parents=True)
    (tmp_path / "src/wattqueue/kernels/a.py").write_text(SOURCE)
    known = RelevantTests(tmp_path, tmp_path)
    file = "src/wattqueue/kernels/a.py"
    known.recorded["tests/t.py"] = Recorded(
        "",
        {"slow": 9.0, "quick": 1.0, "boxed": 2.0},
        {f"{file}::few": ["slow", "quick"], f"{file}::Box.twice": ["boxed"]},
    )
    place = next(place for place in places_of(tmp_path, file) if place.text == text)
    assert list(known.of(place)) == tests


def test_parameters_of_a_test_are_no_part_of_its_name() -> None:
    assert without_parameters("tests/a.py::test_x[a\nb::c]@slurm") == "tests/a.py::test_x"
    assert without_parameters("tests/a.py::test_x@tests/a.py") == "tests/a.py::test_x"


def test_what_a_program_runs_belongs_to_the_test_that_started_it(tmp_path: Path) -> None:
    known, (a, b) = RelevantTests(tmp_path, tmp_path), (f"tests/t.py::test_{name}" for name in "ab")
    known.recorded["tests/t.py"] = Recorded("", {a: 1.0, b: 1.0})
    for contexts, tests in (
        ({f"{a}|run"}, {a}), ({f"{a} (call)"}, {a}), ({f"{b}[x (y)|z] (call)"}, {b}), ({f"{a}|setup"}, {a, b}),
        ({f"{a} (setup)"}, {a, b}), ({"tests/other.py::test_a (call)"}, set()),
    ):  # fmt: skip
        assert known._named(contexts) == ({"tests/t.py": tests} if tests else {})


TESTED = """
def least(a, b):
    if a < b:
        return a
    return b


def count(n):
    done = 0
    while done < n:
        done += 1
    return done


def unasked(n):
    return n + 1


def started():
    return 7
"""
TESTS = """
import subprocess
import sys

from wattqueue.kernels.tested import count, least, unasked

def test_least():
    assert least(1, 2) == 1
    assert least(3, 2) == 2

def test_count():
    assert count(0) == 0
    assert count(3) == 3

def test_unasked():
    unasked(1)

def test_of_a_program():
    code = "from wattqueue.kernels.tested import started; raise SystemExit(started())"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 7

def test_that_fails_anyway():
    assert unasked(1) == 0
"""


@pytest.mark.slow
def test_mutations_are_killed_by_failures_and_by_time_and_survive_what_nothing_asserts(tmp_path: Path) -> None:
    (tmp_path / "tools/mutation").mkdir(parents=True)
    for name in ("places", "tests_of", "trial", "durations", "__main__", "__init__"):
        shutil.copy(ROOT / f"tools/mutation/{name}.py", tmp_path / "tools/mutation")
    shutil.copy(ROOT / "tools/packages.py", tmp_path / "tools")
    (tmp_path / "pyproject.toml").write_text(wheel_of("wattqueue"))
    shutil.copy(ROOT / "tools/mutation/coveragerc", tmp_path / "tools/mutation")
    (tmp_path / "tools/mutation/equivalent.toml").write_text("")
    trial = tmp_path / "tools/mutation/trial.py"
    trial.write_text(trial.read_text().replace("= 60.0, 4.0", f"= {PATIENCE_S}, 0.0"))
    files = {"tools/__init__.py": "", "src/wattqueue/__init__.py": "", "src/wattqueue/kernels/__init__.py": ""}
    files |= {"src/wattqueue/kernels/tested.py": TESTED, "tests/kernels/test_tested.py": TESTS}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    own = {k: v for k, v in os.environ.items() if not k.startswith(("COV_", "PYTEST_"))}
    own["PYTHONPATH"] = str(tmp_path / "src")
    command = [sys.executable, "-m", "tools.mutation", "--packages", "kernels", "--places", "99", "--workers", "1"]
    done = subprocess.run(command, cwd=tmp_path, env=own, check=False, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    rows = json.loads((tmp_path / "out/mutation.json").read_text())["places"]
    fate = {(row["text"], row["after"]): row["killed_by"].rpartition("::")[2] for row in rows}
    assert fate.pop(("return n + 1", "-" if ("return n + 1", "-") in fate else "2")) == ""
    by_text = {text: killed for (text, _), killed in fate.items()}
    assert by_text["if a < b:"] in {"test_least", ""}  # <= returns the same of two equal numbers
    assert by_text["done = 0"] == "test_count"
    assert by_text["while done < n:"] == "test_count"
    assert by_text["return 7"] == "test_of_a_program"
    assert by_text["done += 1"] in {"test_count", "time-out"}
    assert "mutations killed" in done.stdout.splitlines()[-1]


PATIENCE_S = 20.0
"""Seconds after which a pytest of the small repository above counts as endless."""


def test_a_place_says_which_mutation_it_is() -> None:
    place = Place("a.py", "f", 3, "constant", "1", "2", "x = 1", 10, 11)
    assert place.is_same(replace(place, line=9, start=99, end=100))
    assert not place.is_same(replace(place, after="3"))
