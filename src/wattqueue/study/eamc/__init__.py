"""Paper 1: EAMC on two clusters, against Base Slurm, Min_runtime and Min_energy."""
