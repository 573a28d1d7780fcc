"""The simulator: true times and watts, the engine, the power series of a finished run."""
