"""Paper 1: EAMC on two clusters, against Base Slurm, Min_runtime and Min_energy.

``systems`` builds the machines and the applications' profiles, ``workloads`` draws the workloads and measures runs,
``claims`` holds the published figures, ``choices`` what EAMC decides before any job is queued, ``extensions`` policies
that the paper does not have; ``study`` runs it all. docs/eamc.md discusses the outcome.
"""
