"""Driving a real Slurm: observe, decide, apply."""
