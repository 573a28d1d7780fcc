"""Slurm's accounting (sacct as text and as JSON) and its lists of hosts."""
