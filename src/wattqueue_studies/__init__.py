"""Reproductions of published evaluations: one folder per study, published figures beside ours.

``eamc`` is paper 1, ``pmc`` are sections 2 and 4.3 of paper 2, ``powercap`` and ``prediction`` are sections 6.4-6.5 and
6.3 of paper 4. A study is machine, workload and ``claims.toml`` (what the paper prints, with its place); ``frame`` is
what all of them share. The commands are in ``cli``; docs/studies.md says how to add one. All workloads are generated;
no real trace of the papers is public.
"""

from pathlib import Path

POLICIES = Path(__file__).with_name("policies.toml")
"""Rows of policies that only studies compare: the entry point ``studies`` in ``wattqueue.policies``."""
