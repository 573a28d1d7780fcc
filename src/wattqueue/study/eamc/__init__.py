"""Paper 1: EAMC on two clusters, against Base Slurm, Min_runtime and Min_energy.

``systems`` builds the machines and the applications' profiles, ``choices`` what EAMC decides before any job is queued,
``sweep`` simulates everything, ``results`` compares it with ``published``, ``text`` prints it; ``beyond`` adds policies
that the paper does not have. docs/eamc.md discusses the outcome.
"""
