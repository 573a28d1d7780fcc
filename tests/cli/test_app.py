"""The command line's frame: verbs by file name, errors in one line, exit statuses."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import wattqueue
from tools.packages import CORE, ROOT
from tools.verbs import TABLE, lines
from wattqueue import cli
from wattqueue.cli import _app
from wattqueue.cli._app import EXTRAS
from wattqueue.errors import InputError

RUN = [sys.executable, "-c", "from wattqueue.cli import main; main()"]

SINGLE = '''"""Say a number often."""

from typing import Annotated
import typer


def run(how: str, n: Annotated[int, typer.Option(help="How often.")] = 3) -> None:
    """Say a number often."""
    if how == "wrong":
        from wattqueue.errors import InputError

        raise InputError("jobs are bad\\nvery bad", where="a.swf, line 3", hint="leave it out")
    if how == "stop":
        raise KeyboardInterrupt
    if how == "absent":
        open("/no/such/file")
    if how in {"sklearn.svm", "dask"}:
        raise ModuleNotFoundError(f"No module named {how!r}", name=how)
    if how == "defect":
        raise ValueError("a defect")
    for i in range(n):
        print(i)
'''

NESTED = '''"""Two commands in one verb."""

import typer

app = typer.Typer()


@app.command()
def show(name: str) -> None:
    """Show one."""
    print("shown", name)


@app.command("list")
def list_() -> None:
    """List all."""
    print("all")
'''


@pytest.fixture
def own_verbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "say_.py").write_text(SINGLE)
    (tmp_path / "two_words").mkdir()
    (tmp_path / "two_words" / "__init__.py").write_text(NESTED)
    (tmp_path / "broken.py").write_text('"""Listed, never imported."""\nraise SystemError')
    rows = {
        "broken": ("broken", "Listed, never imported."),
        "missing": ("wattqueue_absent.cli", "Of a package that is not installed."),
        "say": ("say_", "Say a number often."),
        "two-words": ("two_words", "Two commands in one verb."),
    }
    monkeypatch.setattr(_app, "VERBS", rows)
    monkeypatch.syspath_prepend(str(tmp_path))
    for stem in ("say_", "two_words", "broken"):
        monkeypatch.delitem(sys.modules, stem, raising=False)
    for name in [name for name in sys.modules if name.startswith("wattqueue_user_")]:
        monkeypatch.delitem(sys.modules, name)  # another test's parts, which errors would be laid to


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["wattqueue", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code


@pytest.mark.usefixtures("own_verbs")
def test_help_lists_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "--help") == 0
    text = capsys.readouterr().out
    assert "Listed, never imported." in text
    assert "Say a number often." in text
    assert "Two commands in one verb." in text
    assert "Of a package that is not installed." in text
    assert call(monkeypatch, "say", "on", "--n", "2") == 0
    assert capsys.readouterr().out == "0\n1\n"


@pytest.mark.usefixtures("own_verbs")
def test_a_value_of_another_type_is_refused_in_plain_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "say", "on", "--n", "ten") == 2
    assert "Invalid value for '--n': 'ten' must be a whole number\n" in capsys.readouterr().err


@pytest.mark.usefixtures("own_verbs")
def test_a_verb_of_an_absent_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "missing", "show") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("wattqueue: missing: needs the package wattqueue_absent (")
    assert "pip install" in said


@pytest.mark.usefixtures("own_verbs")
def test_another_distribution_adds_a_verb_by_an_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "__init__.py").write_text(SINGLE)
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[wattqueue.verbs]\nsay-theirs = theirs\nsay = broken\n")
    assert call(monkeypatch, "say-theirs", "on") == 0
    assert capsys.readouterr().out == "0\n1\n2\n"
    assert call(monkeypatch, "say", "on", "--n", "1") == 0, "none takes the place of a verb of the table"
    assert capsys.readouterr().out == "0\n"


@pytest.mark.usefixtures("own_verbs")
def test_a_verb_may_have_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "two-words", "show", "easy") == 0
    assert capsys.readouterr().out == "shown easy\n"
    assert call(monkeypatch, "two-words", "list") == 0
    assert capsys.readouterr().out == "all\n"


def test_what_is_registered_for_the_exit_still_runs(tmp_path: Path) -> None:
    # The collector is stopped at exit, which must keep no finalizer from its work.
    code = (
        "import tempfile\n"
        "from wattqueue.cli import main\n"
        f"kept = tempfile.TemporaryDirectory(dir={str(tmp_path)!r})\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("own_verbs")
@pytest.mark.parametrize(
    ("how", "status", "line"),
    [
        ("wrong", 2, "wattqueue: a.swf, line 3: jobs are bad very bad (leave it out)\n"),
        ("absent", 2, "wattqueue: /no/such/file: No such file or directory\n"),
        ("sklearn.svm", 2, "wattqueue: this needs the package sklearn.svm: pip install 'wattqueue[ml]'\n"),
        ("dask", 2, "wattqueue: this needs the package dask: pip install 'wattqueue[scale]'\n"),
        ("stop", 130, ""),
    ],
)
def test_an_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], how: str, status: int, line: str
) -> None:
    assert call(monkeypatch, "say", how) == status
    assert capsys.readouterr().err == line


MODULES = {"scikit-learn": "sklearn", "paho-mqtt": "paho", "nvidia-ml-py": "pynvml"}
"""Packages whose module has another name."""


def test_every_package_of_an_extra_is_named_where_it_is_missing() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {}
    for extra, stated in project.items():
        for text in stated if extra not in ("docs", "dev") else ():
            package = re.split(r"[^\w-]", text)[0]
            if package != "wattqueue":
                named[MODULES.get(package, package.replace("-", "_"))] = extra
    assert named == EXTRAS


@pytest.mark.usefixtures("own_verbs")
def test_a_defect_of_ours_and_the_option_show_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["wattqueue", "say", "defect"])
    with pytest.raises(ValueError, match="a defect"):
        cli.main()
    monkeypatch.setattr(sys, "argv", ["wattqueue", "--traceback", "say", "wrong"])
    with pytest.raises(InputError) as caught:
        cli.main()
    assert str(caught.value.where).startswith("a.swf")


@pytest.mark.usefixtures("own_verbs")
@pytest.mark.parametrize("arguments", [("nothing-like-it",), ("say",), ("say", "on", "--no-such-option")])
def test_wrong_usage_is_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert call(monkeypatch, *arguments) == 2
    assert "Error" in capsys.readouterr().err


def test_version() -> None:
    done = subprocess.run([*RUN, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"wattqueue {wattqueue.__version__}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*RUN, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "wattqueue: No space left on device\n"


def test_a_reader_that_leaves_is_quiet() -> None:
    with subprocess.Popen([*RUN, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""


def test_help_loads_nothing_heavy() -> None:
    look = (
        "import sys; from wattqueue.cli import main; sys.argv = ['wattqueue', '--help']\n"
        "try: main()\n"
        "except SystemExit: print(sorted({'numpy', 'numba', 'polars', 'pydantic', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_table_of_verbs_is_that_of_the_sources() -> None:
    assert (ROOT / TABLE).read_text(encoding="utf-8") == "".join(lines()), "run python -m tools.verbs"


def test_every_verb_has_a_summary_and_something_to_run() -> None:
    for name, verb in _app.verbs().items():
        assert verb.summary.endswith((".", "?")), f"the docstring of {verb.module} must start with one sentence"
        if _app._is_installed(verb):
            _app._register(typer.Typer(), name, verb)
        else:
            assert not verb.module.startswith(f"{CORE}.")
