"""Scripts that the Makefile calls."""
