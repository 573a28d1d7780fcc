"""Execute the cells of a notebook in order, as a kernel would, without one: no package beside the standard library.

``python -m tests.api.cells docs/notebooks/*.ipynb`` executes the notebooks and stores their outputs.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

Output = dict[str, Any]
FORMS = (("text/html", "_repr_html_"), ("image/svg+xml", "_repr_svg_"))


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def execute(cell: dict[str, Any], names: dict[str, Any], where: str) -> list[Output]:
    """Outputs of one cell: what it prints, then the value of its last line where that is an expression."""
    tree = ast.parse("".join(cell["source"]), where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)  # noqa: S102  a notebook of our own
        if last is not None:
            assert isinstance(last, ast.Expr)
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)  # noqa: S307  as above
    outputs: list[Output] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())})
    if value is not None:
        outputs.append({"output_type": "execute_result", "metadata": {}, "data": shown(value)})
    return outputs


def shown(value: Any) -> dict[str, list[str]]:
    """All forms that a value offers, by media type."""
    found = {"text/plain": lines(repr(value))}
    for kind, method in FORMS:
        if hasattr(value, method):
            found[kind] = lines(getattr(value, method)())
    return found


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def store(path: Path) -> None:
    """Execute a notebook in an empty folder, and write it with its outputs."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for count, cell in enumerate(code_cells(notebook), 1):
                cell["outputs"] = execute(cell, names, f"{path.name}, cell {count}")
                cell["execution_count"] = count
                for output in cell["outputs"]:
                    if output["output_type"] == "execute_result":
                        output["execution_count"] = count
        finally:
            os.chdir(home)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        store(Path(name).resolve())
