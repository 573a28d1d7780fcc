"""``[[supply]]`` tables of a machine file, and the CSV that says which node hangs below which rack, row and feed.

Tables alone state the whole tree. A range in a name stands for as many domains, which share nodes and parents evenly,
in order::

    [[supply]]
    name = "feed-a"
    limit_csv = "feed-a.csv"          # time_s,limit_w

    [[supply]]
    name = "rack[01-16]"              # rack01 has nodes 1 to 4, rack02 5 to 8, ...
    parent = "feed-a"
    nodes = "gpu[1-64]"
    limit_w = 24_000.0
    meter = "pdu-{name}"

With ``supply_csv`` a file states the tree, and tables its figures, by a name of the file or a pattern (``rack*``). Its
columns are ``node``, ``partition`` where the machine has several, and the levels from the lowest up. Rows of a
partition are its nodes in order::

    node,rack,row,feed
    n001,r1,row1,a
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError, MachineError, one_of
from wattqueue.formats.csv_records import records
from wattqueue.formats.series import read_steps
from wattqueue.formats.source import in_folder
from wattqueue.model.bounds import CAP_W
from wattqueue.model.machine import Partition
from wattqueue.model.supply import ONE_TREE, SupplyDomain, node_ranges

RANGE = re.compile(r"(.*)\[([0-9]+)-([0-9]+)\](.*)")
MOST = 100_000
"""Domains that one table may stand for."""


def supply_of(
    tables: Sequence[Mapping[str, Any]], csv: str | None, partitions: Sequence[Partition], folder: Path
) -> tuple[SupplyDomain, ...]:
    """Return the power domains of checked tables; ``csv`` names the file of the tree, None for none.

    Files count from ``folder``.

    Raises: InputError for a file that cannot be read, or is no tree; MachineError for tables that state no domains.
    """
    rows = [_figures(table, folder) for table in tables]
    if csv is None:
        return tuple(domain for row in rows for domain in _expanded(row, partitions))
    path = Path(in_folder(csv, folder))
    tree, figures = _tree_of(path, partitions), dict[str, dict[str, Any]]()
    for row in rows:
        name = row.pop("name")
        where = f"supply {name}"
        if "parent" in row or "nodes" in row:
            raise MachineError("parent and nodes beside supply_csv", where=where, hint=f"{path} states the tree")
        found = [one for one in tree if one == name or fnmatchcase(one, name)]
        if not found:
            raise MachineError(f"no domain of {path} has this name", where=where, hint=one_of(name, [*tree][:20]))
        for one in found:
            if one in figures:
                raise MachineError(f"two tables for {one}", where=where, hint="let each domain match one name")
            figures[one] = {key: _named(value, one) for key, value in row.items()}
    return tuple(SupplyDomain(**{"name": one, **stated, **figures.get(one, {})}) for one, stated in tree.items())


def _figures(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the keys of a table, lists as tuples, the file of a limit read."""
    row: dict[str, Any] = {key: value for key, value in table.items() if value is not None}
    row |= {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
    parent = row.get("parent", "")
    if not isinstance(parent, str):
        if len(parent) != 1:
            raise MachineError(f"{len(parent)} parents", where=f"supply {row['name']}", hint=ONE_TREE)
        row["parent"] = parent[0]
    if "limit_csv" in row:
        if {"limit_w", "limit_s", "limits_w", "known_s"} & row.keys():
            raise MachineError("limit_csv beside another limit", where=f"supply {row['name']}", hint="state one")
        path = Path(in_folder(row.pop("limit_csv"), folder))
        steps = read_steps(path, "time_s", "limit_w", bound=CAP_W)
        row["limit_s"], row["limits_w"] = tuple(steps.time_s.tolist()), tuple(steps.value.tolist())
    return row


def _expanded(row: Mapping[str, Any], partitions: Sequence[Partition]) -> Iterator[SupplyDomain]:
    """Yield the domains of a table without ``supply_csv``: one, or those of the range in its name."""
    names, where = _names(row["name"]), f"supply {row['name']}"
    parents = _shared(_names(row.get("parent", "")), len(names), where, "parents")
    if len(names) == 1:
        yield SupplyDomain(**row)
        return
    lists = [""] * len(names)
    if "nodes" in row:
        sizes = {part.name: part.nodes for part in partitions}
        single = [
            f"{name}[{node}]"
            for name, first, last in node_ranges(row["nodes"], where)
            for node in range(first, (sizes.get(name, first) if last is None else last) + 1)
        ]
        each, left = divmod(len(single), len(names))
        if left or not each:
            what = f"{len(single)} nodes for {len(names)} domains"
            raise MachineError(what, where=where, hint="as many for each: write a table for those that differ")
        lists = [_joined(single[k * each : (k + 1) * each]) for k in range(len(names))]
    for name, parent, nodes in zip(names, parents, lists, strict=True):
        stated = {key: _named(value, name) for key, value in row.items()}
        yield SupplyDomain(**{**stated, "name": name, "parent": parent, "nodes": nodes})


def _names(text: str) -> list[str]:
    """Return the names that a name with a range stands for, numbers as wide as the first."""
    found = RANGE.fullmatch(text)
    if found is None:
        return [text]
    before, first, last, behind = found.groups()
    if not int(first) <= int(last) < int(first) + MOST:
        raise MachineError(f"range {first}-{last}", where=f"supply {text}", hint=f"rising, {MOST:,} domains at most")
    return [f"{before}{k:0{len(first)}}{behind}" for k in range(int(first), int(last) + 1)]


def _shared(names: list[str], count: int, where: str, what: str) -> list[str]:
    """Return the name for each of ``count`` domains that share these evenly, in order."""
    if count % len(names):
        raise MachineError(f"{count} domains for {len(names)} {what}", where=where, hint="as many for each")
    return [name for name in names for _ in range(count // len(names))]


def _named(value: Any, name: str) -> Any:
    """Return a value of a table for one of its domains: ``{name}`` in a text is its name."""
    return value.replace("{name}", name) if isinstance(value, str) else value


def _joined(nodes: Sequence[str]) -> str:
    """Return ``part[k]`` texts as one list, runs of neighbours together."""
    runs: list[tuple[str, int, int]] = []
    for text in nodes:
        name, number = text[:-1].rsplit("[", 1)
        if runs and runs[-1][0] == name and runs[-1][2] == int(number) - 1:
            runs[-1] = (name, runs[-1][1], int(number))
        else:
            runs.append((name, int(number), int(number)))
    return ",".join(f"{name}[{first}-{last}]" for name, first, last in runs)


def _tree_of(path: Path, partitions: Sequence[Partition]) -> dict[str, dict[str, str]]:
    """Return parent and nodes of each domain of a CSV.

    Raises: InputError naming file and line: a node or a domain with two places, columns or cells that are missing, and
    partitions whose nodes are not as many as the machine's.
    """
    rows = records(path, 0)
    line, names = next(rows, (1, []))
    names = [name.strip() for name in names]
    levels = [name for name in names if name not in ("node", "partition")]
    several = len(partitions) > 1
    if "node" not in names or not levels or (several and "partition" not in names) or len(set(names)) < len(names):
        columns = "node,partition,rack,row,feed" if several else "node,rack,row,feed"
        raise InputError(f"columns {', '.join(names)}", where=f"{path}:{line}", hint=f"for example {columns}")
    parents, nodes, at = dict[str, str](), dict[str, list[str]](), dict[str, str]()
    level_of, counts = dict[str, str](), {part.name: 0 for part in partitions}
    for line, fields in rows:
        where = f"{path}:{line}"
        cell = dict(zip(names, (field.strip() for field in fields), strict=False))
        chain = [(level, cell.get(level, "")) for level in levels if cell.get(level, "")]
        partition = cell.get("partition", "") if several else partitions[0].name
        if not cell.get("node") or not chain:
            raise InputError("a node without a name or a domain", where=where, hint="a node is in one domain at least")
        if partition not in counts:
            raise InputError(f"no partition {partition!r}", where=where, hint=one_of(partition, counts))
        if cell["node"] in at:
            raise InputError(f"node {cell['node']} twice, before in {at[cell['node']]}", where=where, hint=ONE_TREE)
        at[cell["node"]] = where
        counts[partition] += 1
        nodes.setdefault(chain[0][1], []).append(f"{partition}[{counts[partition]}]")
        for (level, name), (_, parent) in zip(chain, [*chain[1:], ("", "")], strict=True):
            if level_of.setdefault(name, level) != level:
                what = f"{name} is a {level} and a {level_of[name]}"
                raise InputError(what, where=where, hint="give each domain a name of its own")
            if parents.setdefault(name, parent) != parent:
                raise InputError(f"{name} is fed by {parents[name]} and by {parent}", where=where, hint=ONE_TREE)
    for part in partitions:
        if counts[part.name] != part.nodes:
            what = f"{counts[part.name]} nodes of {part.name}, which has {part.nodes}"
            raise InputError(what, where=path, hint="a row for each node, in the order of their numbers")
    return {name: {"parent": parent, "nodes": _joined(nodes.get(name, []))} for name, parent in parents.items()}
