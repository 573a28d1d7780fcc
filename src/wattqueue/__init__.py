"""WattQueue: an energy- and power-aware scheduler for HPC clusters.

One set of policies, written once, simulates a workload under a power cap, predicts what jobs
will draw and take, and drives a stock Slurm.
"""

__version__ = "0.1.0"
SCHEMA_VERSION = 1
"""Version of every file that WattQueue writes; raised when a column or key changes meaning."""
