"""Reproductions of published evaluations: one folder per paper section, with published values beside ours.

``eamc`` is paper 1, ``powercap`` and ``prediction`` are sections 6.4-6.5 and 6.3 of paper 4. Each has ``published``
(what the paper prints, with its place), a runner (``study.run_study``), tables (``text``) and, where useful, one HTML
page. The commands are in ``wattqueue.cli.study``. All workloads are generated; no real trace of the papers is public.
"""
