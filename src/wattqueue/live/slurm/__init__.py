"""An unmodified Slurm through its own commands: observe, compare, write as little as possible."""
