"""The figures of ``tools/structure.py``: none may grow. A change that lowers one lowers its bound here."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from textwrap import dedent

import pytest

from tools.packages import ROOT
from tools.structure import Structure, circles, closure, files_in, structure_of

BOUNDS = {
    "largest_module": 498,
    "largest_class": 191,
    "wide_functions": 2,
    "circle": 0,
    "lazy_circle": 0,
    "live_modules": 35,
    "numbered_slots": 0,
}


def test_no_figure_is_above_its_bound() -> None:
    figures = asdict(structure_of(files_in(ROOT / "src")))
    assert {name: figures[name] for name, bound in BOUNDS.items() if figures[name] > bound} == {}


RELEASES = ("wattqueue.live.release", "wattqueue.live.slurm.cluster")
"""What releases jobs while the controller is away: it has to work where everything else fails."""


def test_what_releases_jobs_needs_little() -> None:
    files, others = closure(files_in(ROOT / "src"), RELEASES)
    assert others == set()
    assert sum(len(file.code_lines) for file in files) <= 3_350


GUARD = ("wattqueue.live.guard.__main__",)
"""The process with the rights to write to Slurm: somebody has to be able to read all of it."""


def test_the_guard_can_be_read() -> None:
    files, others = closure(files_in(ROOT / "src"), GUARD)
    assert others == set()
    assert sum(len(file.code_lines) for file in files) <= 2_500


LIMITS_GUARD = ("wattqueue_agent.limits_guard",)
"""The process with the broker's right to set limits of nodes."""


def test_what_publishes_limits_can_be_read() -> None:
    files, others = closure(files_in(ROOT / "src"), LIMITS_GUARD)
    assert others == {"paho"}
    assert sum(len(file.code_lines) for file in files) <= 1_100


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Two packages in which each figure has a value that can be counted by hand."""
    files = {
        "wattqueue/__init__.py": "from wattqueue.live import first\n",
        "wattqueue/live/__init__.py": "",
        "wattqueue/live/first.py": '''
            """Docstring of the module."""

            import wattqueue.live.second  # a comment


            class First:
                """Docstring of the class."""

                figure = 1
                """Docstring of an attribute."""

                def wide(self, a, b, c, d, e, f, g, h, i):
                    text = """a text
                    of two lines"""
                    return now[codes.AVAILABLE] + codes.AVAILABLE
            ''',
        "wattqueue/live/second.py": "from . import third\n",
        "wattqueue/live/third.py": "def load():\n    from wattqueue.live import first\n",
        "wattqueue/live/deep/fourth.py": "x = 1\n",
        "wattqueue/kernels/state/arrays.py": "x = now[codes.AVAILABLE, codes.COUNTED]\n",
        "wattqueue_grid/__init__.py": "from typing import TYPE_CHECKING\n\n"
        "if TYPE_CHECKING:\n    import wattqueue_grid.page\n",
        "wattqueue_grid/page.py": "import wattqueue_grid\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
    return tmp_path


def test_figures_of_a_tree_counted_by_hand(sources: Path) -> None:
    assert structure_of(files_in(sources)) == Structure(
        core_lines=13,
        all_lines=17,
        largest_module=15,
        largest_class=6,
        wide_functions=1,
        circle=0,
        lazy_circle=3,
        live_modules=3,
        numbered_slots=1,
    )


def test_what_is_loaded_with_a_module(sources: Path) -> None:
    (sources / "wattqueue/live/deep/__init__.py").write_text("import numpy.typing\n")
    (sources / "wattqueue/live/deep/fourth.py").write_text("import json\nfrom wattqueue.live.second import x\n")
    files, others = closure(files_in(sources), ["wattqueue.live.deep.fourth"])
    # with its packages, of which the first imports one more module
    names = {"", ".live", ".live.first", ".live.second", ".live.third", ".live.deep", ".live.deep.fourth"}
    assert {file.name for file in files} == {f"wattqueue{name}" for name in names}
    assert others == {"numpy"}


def test_circles_are_named(sources: Path) -> None:
    live = {f"wattqueue.live.{name}" for name in ("first", "second", "third")}
    assert circles(files_in(sources), lazy=True) == [live, {"wattqueue_grid", "wattqueue_grid.page"}]
    assert circles(files_in(sources), lazy=False) == []
