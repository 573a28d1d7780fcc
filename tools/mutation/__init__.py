"""Mutation testing: change places of the source, drawn by seed, and see whether the tests that run them fail."""
