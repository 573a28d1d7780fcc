"""What would a cap do: the same workload under a row of caps, and what to make of it."""
