"""Renew what the README shows of the demo: ``python -m tools.readme_demo [--runs FOLDER]``.

The table between the two comments of the README is made of the metrics of the demo's three runs, and
``docs/images/report.png`` is the top of the third one's page, taken by a headless Chromium. The picture carries the
figures of its run, so that a test can tell when it shows another run than the table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.report import chromium
from wattqueue.cli import demo

README = Path("README.md")
PICTURE = Path("docs/images/report.png")
BEGIN = "<!-- demo: written by python -m tools.readme_demo -->\n"
END = "<!-- end of demo -->"
SIZE = (1120, 1500)
"""Width and height of the picture, in pixels."""
KEY = "wattqueue"
"""Name of the text in the picture that holds the figures."""

Metrics = dict[str, Any]


def folders(out: Path) -> tuple[Path, Path, Path]:
    """Folders of the demo's runs: uncapped; capped with every node at its maximum; capped with known watts."""
    share = demo.CAP.removesuffix("%")
    return out / "uncapped", out / f"cap-{share}", out / f"cap-{share}-watts-known"


def metrics_of(folder: Path) -> Metrics:
    """Return the metrics of a run."""
    metrics: Metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    return metrics


def table(runs: Sequence[Metrics]) -> str:
    """Return the README's table of the three runs, in Markdown."""
    cap = demo.CAP.replace("%", " %")
    heads = ("uncapped", f"cap {cap}, every node counted at its maximum", f"cap {cap}, perfect prediction")
    rows = {
        "mean wait, min": [f"{run['wait_s_mean'] / 60:,.0f}" for run in runs],
        "utilization, %": [f"{100 * run['utilization']:.1f}" for run in runs],
        "mean power / cap, %": [_or_dash(run["power_utilization"], 100, 1) for run in runs],
        "time above the cap, min": [_or_dash(run["cap_over_s"], 1 / 60, 0) for run in runs],
        "makespan, days": [f"{run['makespan_s'] / 86_400:.2f}" for run in runs],
    }
    title = f"the generated week, policy `easy` | {' | '.join(heads)}"
    return "\n".join(
        [f"| {title} |", "|---|---:|---:|---:|", *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items())]
    )


def _or_dash(value: float | None, factor: float, digits: int) -> str:
    return "–" if value is None else f"{value * factor:.{digits}f}"


def shown(run: Metrics) -> Metrics:
    """Return the figures that the picture carries."""
    return {name: run[name] for name in ("wait_s_mean", "utilization", "makespan_s")}


def photograph(page: Path, figures: Metrics, target: Path) -> None:
    """Write the top of a page as a PNG with 256 colours, and the figures in it."""
    program = chromium.find()
    if program is None:
        raise SystemExit(f"needs a Chromium: none of {', '.join(chromium.NAMES)} is installed")
    with chromium.browser(program) as browser, tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "page.png"
        browser.open(page, width=SIZE[0], height=SIZE[1])
        browser.picture(raw, whole=False)
        text = PngInfo()
        text.add_text(KEY, json.dumps(figures))
        Image.open(raw).convert("P", palette=Image.Palette.ADAPTIVE).save(target, pnginfo=text, optimize=True)


def figures_of(picture: Path) -> Metrics:
    """Return the figures that a picture carries."""
    with Image.open(picture) as image:
        figures: Metrics = json.loads(str(image.info[KEY]))
    return figures


def main() -> None:
    """Run the demo, or take its runs, and write table and picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--runs", type=Path, help="folder of the demo's runs; without it the demo is run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = options.runs or Path(scratch)
        if options.runs is None:
            subprocess.run(["wattqueue", "demo", "--out", str(out)], check=True)
        runs = [metrics_of(folder) for folder in folders(out)]
        before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        README.write_text(f"{before}{BEGIN}\n{table(runs)}\n\n{END}{after}", encoding="utf-8")
        photograph(folders(out)[2] / "report.html", shown(runs[2]), PICTURE)


if __name__ == "__main__":
    main()
