"""Which tests run a function: measured with coverage, one context a test, and kept between runs.

The map is kept by test file, with the file's digest: a run of ``update`` records the files that are new or changed.
What the map says about a test may be old where the source has changed since; ``make mutate FRESH=1`` records all.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.mutation.places import Place, functions_of

FOLDERS = ("kernels", "policy", "live", "formats", "sim", "parts", "checks", "model", "wattqueue_agent")
"""Folders of tests that are recorded: those of the packages that are changed, and of what calls them directly."""
FAST = "not slow and not compiled and not slurm and not postgres and not mariadb and not browser"


@dataclass(slots=True)
class Recorded:
    """One test file: its tests with their seconds, and the tests that run each function."""

    digest: str
    tests: dict[str, float] = field(default_factory=dict)
    functions: dict[str, list[str]] = field(default_factory=dict)
    """By ``path::qualified name``."""


class RelevantTests:
    """The tests of each function of the source."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder, self.file = root, folder, folder / "tests.json"
        read = json.loads(self.file.read_text()) if self.file.exists() else {}
        self.recorded = {name: Recorded(**values) for name, values in read.items()}

    def update(self, folders: Sequence[str] = FOLDERS, *, fresh: bool = False, workers: int = 2) -> None:
        """Record the test files of some folders that are new or changed; all of these if ``fresh``."""
        digests = {
            file.relative_to(self.root).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
            for name in folders
            for file in sorted((self.root / "tests" / name).rglob("test_*.py"))
        }
        known = {} if fresh else self.recorded
        changed = [name for name, digest in digests.items() if name not in known or known[name].digest != digest]
        self.recorded = {name: known[name] for name in digests if name not in changed}  # not of tests that were removed
        if changed:
            print(f"records which functions {len(changed)} test files run", flush=True)
            taken_s, coverage_file = self._run(changed, workers)
            self.add(taken_s, coverage_file, {name: digests[name] for name in changed})

    def _run(self, files: list[str], workers: int) -> tuple[dict[str, float], Path]:
        """Run test files with coverage. Returns the seconds of each test that passed, and the file of coverage."""
        self.folder.mkdir(parents=True, exist_ok=True)
        durations, data = self.folder / "durations.json", self.folder / "coverage"
        data.unlink(missing_ok=True)
        durations.unlink(missing_ok=True)  # of an earlier run
        settings = self.root / "tools/mutation/coveragerc"
        command = [
            sys.executable, "-m", "pytest", "-q", "--no-header", "-n", str(workers), "--dist", "loadfile", "-m", FAST,
            "-p", "tools.mutation.durations", "--cov", f"--cov-config={settings}", "--cov-context=test",
            "--cov-report=", *files,
        ]  # fmt: skip
        own = {"NUMBA_DISABLE_JIT": "1", "MUTATION_DURATIONS": str(durations), "COVERAGE_FILE": str(data)}
        own["MUTATION_COVERAGE"] = str(settings)
        done = subprocess.run(
            command, cwd=self.root, env={**os.environ, **own}, check=False, capture_output=True, text=True
        )
        # tests that fail are left out; a run that broke off has recorded nothing
        if not durations.exists():
            sys.exit(f"mutation: the tests broke off:\n{(done.stdout + done.stderr)[-3_000:]}")
        return json.loads(durations.read_text()), data

    def add(self, taken_s: dict[str, float], coverage_file: Path, digests: dict[str, str]) -> None:
        """Enter what a run with coverage has recorded, and write the map."""
        for name, digest in digests.items():
            self.recorded[name] = Recorded(digest)
        for node, seconds in taken_s.items():
            test = without_parameters(node)
            if (file := self.recorded.get(test.partition("::")[0])) is not None:
                file.tests[test] = round(file.tests.get(test, 0.0) + seconds, 3)
        for function, contexts in _contexts(self.root, coverage_file).items():
            for name, tests in self._named(contexts).items():
                self.recorded[name].functions[function] = sorted(tests)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps({k: _as_dict(v) for k, v in self.recorded.items()}))

    def _named(self, contexts: set[str]) -> dict[str, set[str]]:
        """Return the tests of contexts by file. What a set-up runs may be shared by all tests there.

        A context is ``test|phase``, or ``test (phase)`` of a program that a test has started.
        """
        found: dict[str, set[str]] = defaultdict(set)
        for context in contexts:
            node, phase = context.removesuffix(")").rsplit(" (" if context.endswith(")") else "|", 1)
            test = without_parameters(node)
            name = test.partition("::")[0]
            if name in self.recorded:
                known = self.recorded[name].tests
                found[name] |= set(known) if phase == "setup" else {test} & known.keys()
        return found

    def of(self, place: Place) -> dict[str, float]:
        """Return the tests that run what a place changes, with their seconds; quick ones first."""
        wanted = set(_functions_at(self.root, place))
        found = {
            test: file.tests[test]
            for file in self.recorded.values()
            for function in wanted & file.functions.keys()
            for test in file.functions[function]
        }
        return dict(sorted(found.items(), key=lambda one: (one[1], one[0])))


def without_parameters(node: str) -> str:
    """Return the name of a test function: its parameters may hold anything, line breaks included."""
    return re.sub(r"\[.*", "", node, flags=re.DOTALL).partition("@")[0]


def _as_dict(recorded: Recorded) -> dict[str, object]:
    return {"digest": recorded.digest, "tests": recorded.tests, "functions": recorded.functions}


def _contexts(root: Path, coverage_file: Path) -> dict[str, set[str]]:
    """Return the contexts that ran each function of the source."""
    from coverage import CoverageData

    data = CoverageData(str(coverage_file))
    data.read()
    found: dict[str, set[str]] = defaultdict(set)
    for measured in data.measured_files():
        file = "src/" + measured.rpartition("/src/")[2]
        if not (root / file).exists():
            continue
        owner: dict[int, str] = {}
        for function in functions_of((root / file).read_text()):
            owner.update(dict.fromkeys(range(function.body, function.end + 1), f"{file}::{function.name}"))
        for line, contexts in data.contexts_by_lineno(measured).items():
            if line in owner:
                found[owner[line]].update(filter(None, contexts))
    return found


def _functions_at(root: Path, place: Place) -> set[str]:
    """Return the functions that a place changes: the one around it, or all that name what a module or class binds."""
    names = {function.name for function in functions_of((root / place.file).read_text())}
    if place.scope in names:
        return {f"{place.file}::{place.scope}"}
    found = {f"{place.file}::{name}" for name in names if place.scope and name.startswith(f"{place.scope}.")}
    bound = re.match(r"\w+", place.scope or place.text)
    if bound is None:
        return found
    word = re.compile(rf"\b{bound[0]}\b")
    for file in (root / "src").rglob("*.py"):
        source = file.read_text()
        if not word.search(source):
            continue
        lines = source.splitlines()
        for function in functions_of(source):
            if word.search("\n".join(lines[function.line - 1 : function.end])):
                found.add(f"{file.relative_to(root).as_posix()}::{function.name}")
    return found
