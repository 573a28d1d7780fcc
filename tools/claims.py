"""Renew what the documents say of the five papers: ``python -m tools.claims [--label TEXT] [STUDY.json ...]``.

Our figures of each claim are kept in ``docs/outcomes``, one file a study, taken from the ``study.json`` of a run
(``wattqueue study NAME -o FOLDER``); ``--label`` records a variant of the study beside its main outcome. Verdicts are
not kept: they follow from these figures, the study's ``claims.toml`` and the rule of ``wattqueue_studies.frame.claim``.
README and docs/studies.md get the count of each paper, each study's page its own, and docs/reproduced.md every claim.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools.packages import ROOT
from wattqueue.report.compare.stats import Estimate
from wattqueue_studies.frame.claim import NOT_COUNTED, WORST_FIRST, ClaimTable, Judged, Verdict
from wattqueue_studies.frame.published import Published, published

PACKAGE = "wattqueue_studies"
OUTCOMES = Path("docs") / "outcomes"
EVERY = Path("docs") / "reproduced.md"
BEGIN, END = "<!-- claims: written by python -m tools.claims -->\n", "<!-- end of claims -->"
PAGES = {
    "eamc": "eamc.md",
    "pmc": "pmc-study.md",
    "variability": "variability-study.md",
    "replay": "replay-study.md",
    "epas": "epas.md",
    "prediction": "prediction-study.md",
    "powercap": "powercap.md",
    "demand_response": "demand-response.md",
}
"""Page of each study of the five papers, in the order of docs/studies.md."""
OWN = {
    "budgets": "budgets-study.md",
    "domains": "domains-study.md",
    "gap": "gap-study.md",
    "gpu": "gpu-study.md",
}
"""Page of each study of our own with claims, which no summary counts."""
SUMMARIES = (Path("README.md"), Path("docs") / "studies.md")
"""Documents with the count of each paper."""
MAIN = "claims"
LABELS = {MAIN: "", "claims_easy": "EASY", "claims_error": "EASY, tables with an error of 5 %"}
"""Lists of claims in a study's JSON, and what their outcome is called; the main one has no label."""
SHOWN = (*reversed(WORST_FIRST), *NOT_COUNTED)
"""Verdicts in the order of the tables."""
KEPT = ("key", "ours", "low", "high", "draws", "reason")
"""What is kept of a claim: of the reason only that of a figure that does not exist."""


@dataclass(frozen=True)
class Outcome:
    """The figures of one run of a study, judged.

    Attributes:
        study: Name of the study.
        label: What sets the run apart; empty for the main one.
        table: The claims with our figures.
    """

    study: str
    label: str
    table: ClaimTable


def studies(root: Path = ROOT) -> dict[str, Published]:
    """Return the claims of each study of one of the five papers, and of our own, by name."""
    found = {}
    for path in sorted((root / "src" / PACKAGE).glob("*/claims.toml")):
        name = path.parent.name
        if name in OWN or tomllib.loads(path.read_text(encoding="utf-8"))["paper"].startswith("Paper "):
            found[name] = published(f"{PACKAGE}.{name}")
    return found


def outcomes(name: str, told: Published, root: Path = ROOT) -> list[Outcome]:
    """Return the recorded runs of a study, the main one first."""
    kept: dict[str, list[dict[str, Any]]] = json.loads((root / OUTCOMES / f"{name}.json").read_text(encoding="utf-8"))
    return [Outcome(name, label, judged(told, rows)) for label, rows in kept.items()]


def judged(told: Published, rows: list[dict[str, Any]]) -> ClaimTable:
    """Return recorded figures, judged by the study's claims as they are now. Raises: KeyError for other claims."""
    claims = {c.claim.key: c.claim for c in told.claims}
    found = []
    for row in rows:
        claim, none = claims[row["key"]], row["ours"] is None
        ours = Estimate(row["draws"] or 1, float("nan") if none else row["ours"], row["low"], row["high"])
        claim = replace(claim, forbids=claim.forbids or row["reason"]) if none else claim
        found.append(Judged(claim, ours, certain=row["draws"] is None))
    return ClaimTable(found, told.draws)


def record(document: Mapping[str, Any], label: str = "", root: Path = ROOT) -> None:
    """Keep our figures of a study's JSON; those of other labels stay."""
    path = root / OUTCOMES / f"{document['study']}.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    fields = {MAIN: label} if label else {field: text for field, text in LABELS.items() if field in document}
    for field, text in fields.items():
        kept[text] = [{k: row[k] for k in KEPT if k != "reason" or row["ours"] is None} for row in document[field]]
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{json.dumps(text)}: [\n {f',{chr(10)} '.join(map(json.dumps, kept[text]))}\n]" for text in sorted(kept)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def count(tables: list[ClaimTable]) -> Counter[Verdict]:
    """Return how many claims of some studies have each verdict."""
    return Counter(verdict for table in tables for _, verdict in table.counted())


def counts_table(first: str, rows: Mapping[str, list[ClaimTable]]) -> str:
    """Return the counts of rows by name, in Markdown; ``first`` heads the names."""
    lines = [f"| {first} | claims | {' | '.join(v.value for v in SHOWN)} |", f"|---|---:|{'---:|' * len(SHOWN)}"]
    for name, tables in rows.items():
        found = count(tables)
        cells = [str(sum(found[v] for v in WORST_FIRST)), *(str(found[v] or "–") for v in SHOWN)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def of_papers(main: Mapping[str, Outcome], told: Mapping[str, Published]) -> str:
    """Return the table of the five papers."""
    papers: dict[str, list[str]] = {}
    for name in PAGES:
        papers.setdefault(told[name].paper.partition(",")[0], []).append(name)
    rows = {
        f"{paper}: {', '.join(name.replace('_', ' ') for name in names)}": [main[name].table for name in names]
        for paper, names in sorted(papers.items())
    }
    return counts_table("study", {**rows, "all": [outcome.table for outcome in main.values()]})


def every_claim(main: Mapping[str, Outcome], told: Mapping[str, Published]) -> Iterator[str]:
    """Yield the lines of the page of all claims."""
    yield from ("# Every claim of the five papers, beside ours", "")
    yield "Written by `python -m tools.claims`. [The rule](studies.md#verdicts) says what verdicts mean and count."
    yield "Rows below a claim in bold are of one figure or sentence, which counts once."
    for name, page in PAGES.items():
        outcome, of = main[name], told[name]
        yield from (
            "",
            f"## {of.title}",
            "",
            f"{of.paper} ([study]({page})): {outcome.table.summary}.",
            "",
        )
        yield from ("| claim | paper | ours | verdict |", "|---|---:|---:|---|")
        for rows, verdict in outcome.table.counted():
            cells = outcome.table.__class__(rows, outcome.table.draws).table().rows
            several = len(rows) > 1
            if several:
                yield f"| **{rows[0].claim.statement}** | | | **{verdict.value}** |"
            for text, figure, ours, _, own in cells:
                yield f"| {'– ' if several else ''}{text} | {figure} | {ours} | {own} |"


def written(root: Path = ROOT) -> dict[Path, str]:
    """Return the text of every document that this command writes, by path."""
    told = studies(root)
    known = {name: outcomes(name, told[name], root) for name in (*PAGES, *OWN)}
    main = {name: known[name][0] for name in PAGES}
    texts = {EVERY: "\n".join(every_claim(main, told)) + "\n"}
    blocks = dict.fromkeys(SUMMARIES, of_papers(main, told))
    for name, page in {**PAGES, **OWN}.items():
        rows = {outcome.label or "main outcome": [outcome.table] for outcome in known[name]}
        blocks[Path("docs") / page] = counts_table("claims of the paper" if name in PAGES else "expectations", rows)
    for path, block in blocks.items():
        before, _, rest = (root / path).read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        texts[path] = f"{before}{BEGIN}\n{block}\n\n{END}{after}"
    return texts


def main() -> None:
    """Record the studies that are named, and write the documents."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("studies", nargs="*", type=Path, help="study.json of runs to record")
    parser.add_argument("--label", default="", help="record them as a variant of this name")
    options = parser.parse_args()
    for path in options.studies:
        record(json.loads(path.read_text(encoding="utf-8")), options.label)
    for path, text in written().items():
        (ROOT / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
