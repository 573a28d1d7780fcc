"""Machine files: read, checked, written, guessed from a trace."""
